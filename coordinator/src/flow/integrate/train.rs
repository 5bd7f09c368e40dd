//! Plans the trains of features: which attempts are checked ahead of their turn (see [`crate::domain::train`]).

use ralph_shared::ids::FeatureId;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::train::{Landing, Plan, Train, plan};
use crate::flow::{Signals, control};
use crate::store;
use crate::store::git::train::{AWAITED, SPECULATION};

/// Reason for the end of a check.
const CHANGED: &str = "the attempts that land before it have changed";

/// Withdraws needless checks before the next turns are given. Returns the checks to queue after them.
pub(super) async fn prepare(
    conn: &mut PgConnection,
    features: &[Uuid],
    signals: &mut Signals,
) -> sqlx::Result<Vec<(Uuid, Vec<Uuid>, i32)>> {
    let mut checks = Vec::new();
    for (feature, landing, max_checks) in store::git::train::planned(conn, features).await? {
        let train = store::git::train::read(conn, feature, landing, max_checks).await?;
        checks.extend(follow(conn, feature, &train, signals).await?);
    }
    Ok(checks)
}

async fn follow(
    conn: &mut PgConnection,
    feature: FeatureId,
    train: &Train,
    signals: &mut Signals,
) -> sqlx::Result<Vec<(Uuid, Vec<Uuid>, i32)>> {
    let Plan {
        checks,
        withdraw,
        abort,
        cleared,
    } = plan(train);
    if !withdraw.is_empty() {
        store::git::train::withdraw(conn, &withdraw).await?;
    }
    if !abort.is_empty() {
        let ids = store::git::train::checking(conn, &abort).await?;
        let mut tasks = store::task::lock(conn, &ids).await?;
        for task in &mut tasks {
            control::fence_off_because(conn, task, CHANGED, signals).await?;
        }
        store::task::save(conn, &tasks.iter().collect::<Vec<_>>()).await?;
        store::git::train::forget(conn, &ids, true).await?;
    }
    if train.landing == Landing::Batch {
        store::git::train::clear(conn, feature, &cleared).await?;
    }
    let priority = match train.landing {
        Landing::Batch => AWAITED,
        Landing::Each | Landing::Serial => SPECULATION,
    };
    let checks = checks.into_iter();
    Ok(checks.map(|(car, ahead)| (car, ahead, priority)).collect())
}

pub(super) async fn queue(
    conn: &mut PgConnection,
    checks: Vec<(Uuid, Vec<Uuid>, i32)>,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    for (car, ahead, priority) in checks {
        let pool = store::git::train::enqueue(conn, car, &ahead, priority).await?;
        signals.got_work(pool.into_iter().collect());
    }
    Ok(())
}
