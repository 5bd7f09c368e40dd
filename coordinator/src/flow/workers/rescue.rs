//! Takes back tasks whose lease ended. Idempotent, safe to die half-way; runs every second.
//!
//! The fence stays until the task is claimed again: a report that arrives before is still accepted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::failure::Failure;
use crate::domain::failure::retry::{self, NextStep};
use crate::domain::outcome;
use crate::domain::states::TaskState;
use crate::faults;
use crate::flow::cascade::{self, Features, moved};
use crate::flow::guard::{guarded, is_away};
use crate::flow::{Signals, claim::path_holds, finish, integrate};
use crate::store;
use crate::store::dispatch::lease::Expired;
use crate::store::git::integration::{ClosedIntegration, Integration, IntegrationState};
use crate::store::task::Task;

/// Most leases of one call.
const BATCH: i64 = 500;

/// Reason of a lost dispatch, for screens and journals.
const REASON: &str = "the lease ended without news from the worker";

/// Takes back expired leases. With `only_ended`, only leases that their worker gave up. A failing feature
/// does not block the others. Returns the number of lost dispatches.
pub async fn rescue(db: &PgPool, lease_ms: i64, only_ended: bool) -> sqlx::Result<(usize, Signals)> {
    let (_, lost) = rescue_after(db, lease_ms, only_ended, (None, 0)).await?;
    Ok(lost)
}

/// Like [`rescue`]; also returns the database's time at its end. When that is `gap_ms` after the time of the
/// last call (`before`), only leases that their worker gave up count.
pub async fn rescue_after(
    db: &PgPool,
    lease_ms: i64,
    only_ended: bool,
    before: (Option<OffsetDateTime>, i64),
) -> sqlx::Result<(OffsetDateTime, (usize, Signals))> {
    let mut conn = db.acquire().await?;
    let (now, expired) =
        store::dispatch::lease::expired(&mut conn, lease_ms, only_ended, BATCH, before).await?;
    drop(conn);
    // The time of this call doesn't count as a gap. This clock stops while the machine sleeps.
    let started = Instant::now();
    let lost = match expired[..] {
        [] => (0, Signals::default()),
        _ => take_all_back(db, &expired).await?,
    };
    Ok((now + started.elapsed(), lost))
}

async fn take_all_back(db: &PgPool, expired: &[Expired]) -> sqlx::Result<(usize, Signals)> {
    let error = match guarded_take_back(db, expired).await {
        Err(error) if !is_away(&error) => error,
        done => return done,
    };
    tracing::warn!(%error, leases = expired.len(), "leases could not be taken back together; trying feature by feature");
    let mut by_feature: BTreeMap<FeatureId, Vec<Expired>> = BTreeMap::new();
    for one in expired {
        by_feature.entry(one.feature).or_default().push(one.clone());
    }
    let (mut lost, mut signals) = (0, Signals::default());
    for (feature, of_feature) in by_feature {
        match guarded_take_back(db, &of_feature).await {
            Ok((n, more)) => {
                lost += n;
                signals.merge(more);
            }
            Err(error) if is_away(&error) => {
                tracing::warn!(%error, "the other leases are taken back later");
                break;
            }
            Err(error) => {
                tracing::error!(%error, %feature, "leases of a feature can't be taken back; the others continue");
            }
        }
    }
    Ok((lost, signals))
}

async fn guarded_take_back(db: &PgPool, expired: &[Expired]) -> sqlx::Result<(usize, Signals)> {
    guarded(store::retry_serialization(|| take_back(db, expired))).await
}

/// Takes back the leases of `expired` that are still expired.
async fn take_back(db: &PgPool, expired: &[Expired]) -> sqlx::Result<(usize, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let features: BTreeSet<_> = expired.iter().map(|e| e.feature).collect();
    let mut features = cascade::lock_features(&mut tx, &features).await?;
    let task_ids: Vec<Uuid> = expired.iter().map(|e| e.task.0).collect();
    let mut tasks: HashMap<_, _> = store::task::lock(&mut tx, &task_ids)
        .await?
        .into_iter()
        .map(|t| (t.id, t))
        .collect();
    let lost = lose(&mut tx, expired, &mut signals).await?;
    let returned = return_tasks(&mut tx, &mut features, &mut tasks, &lost).await?;
    let rows: Vec<_> = returned.changed.iter().filter_map(|id| tasks.get(id)).collect();
    store::task::save(&mut tx, &rows).await?;
    for (task, end, reason) in &returned.given_up {
        store::git::integration::close(&mut tx, &ClosedIntegration::without_landing(*task, *end)).await?;
        store::task::explain(&mut tx, *task, Some(reason)).await?;
        if waits(&tasks, *task) {
            store::notice::person_needed(&mut tx, *task, reason).await?;
        }
    }
    let failed: Vec<_> = rows
        .iter()
        .filter(|task| task.state == TaskState::Failed)
        .map(|task| (task.feature, task.id))
        .collect();
    cascade::failed(&mut tx, &mut features, &failed).await?;
    let delays = vec![0; returned.again.len()];
    signals.got_work(store::queue::ready::enqueue(&mut tx, &returned.again, &delays).await?);
    path_holds::release(&mut tx, &features, &mut signals).await?;
    let turns: BTreeSet<_> = lost.iter().map(|e| e.feature).collect();
    integrate::promote(&mut tx, &turns, &mut signals).await?;
    finish::check(&mut tx, &mut features, &mut signals).await?;
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    faults::point("rescue.before_commit");
    tx.commit().await?;
    faults::point("rescue.after_commit");
    if !lost.is_empty() {
        tracing::warn!(
            lost = lost.len(),
            "leases ended; their tasks may be claimed again"
        );
    }
    Ok((lost.len(), signals))
}

/// Ends the dispatches that are still expired.
async fn lose<'e>(
    conn: &mut PgConnection,
    expired: &'e [Expired],
    signals: &mut Signals,
) -> sqlx::Result<Vec<&'e Expired>> {
    let ids: Vec<Uuid> = expired.iter().map(|e| e.id.0).collect();
    let still: BTreeSet<Uuid> = store::dispatch::lease::still_expired(conn, &ids)
        .await?
        .into_iter()
        .collect();
    let lost: Vec<&Expired> = expired.iter().filter(|e| still.contains(&e.id.0)).collect();
    let lost_ids: Vec<Uuid> = lost.iter().map(|e| e.id.0).collect();
    let failures: Vec<Failure> = lost.iter().map(|one| loss_failure(one)).collect();
    store::dispatch::lease::lose(conn, &lost_ids, &failures, REASON).await?;
    signals.ended.extend(lost.iter().map(|one| one.id));
    store::git::integration::release_turn(conn, &lost_ids).await?;
    Ok(lost)
}

#[derive(Default)]
struct Returned {
    changed: Vec<TaskId>,
    again: Vec<Uuid>,
    given_up: Vec<(TaskId, IntegrationState, String)>,
}

async fn return_tasks(
    conn: &mut PgConnection,
    features: &mut Features,
    tasks: &mut HashMap<TaskId, Task>,
    lost: &[&Expired],
) -> sqlx::Result<Returned> {
    let mut returned = Returned::default();
    let integrating = tasks
        .values()
        .filter(|task| task.next_kind == Some(SessionKind::Integrate));
    let integrating: Vec<Uuid> = integrating.map(|task| task.id.0).collect();
    let open = store::git::integration::open_of_tasks(conn, &integrating).await?;
    let reviewed = reviewed(conn, features).await?;
    for &one in lost {
        let Some(task) = tasks.get_mut(&one.task) else {
            continue;
        };
        if task.dispatch != Some(one.id) || task.state != TaskState::InProgress {
            continue;
        }
        returned.changed.push(one.task);
        if task.next_kind == Some(SessionKind::Integrate) {
            let open = open.iter().find(|open| open.task == one.task);
            if let Some(why) = never_lands(one, task, open) {
                give_up(features, task, reviewed.contains(&task.feature));
                returned.given_up.push((one.task, IntegrationState::Failed, why));
            }
        } else if after_loss(one, task) == NextStep::NeedsReview {
            let asks = reviewed.contains(&task.feature) || task.role == SessionKind::Check;
            give_up(features, task, asks);
            let why = retry::without_tries(loss_failure(one), None);
            returned
                .given_up
                .push((one.task, IntegrationState::Withdrawn, why));
        } else {
            if task.next_kind.is_some_and(SessionKind::begins_attempt) {
                let waiting = task.waiting();
                moved(features, task.feature, task.state, waiting);
                task.state = waiting;
            }
            returned.again.push(one.task.0);
        }
    }
    Ok(returned)
}

/// Why pushed work is not tried again after this loss.
fn never_lands(one: &Expired, task: &mut Task, open: Option<&Integration>) -> Option<String> {
    let open = open.filter(|_| one.worker_died)?;
    if open.tries >= outcome::MAX_INTEGRATION_TRIES {
        return Some(format!(
            "its work is pushed, but cannot land on the branch: {} tries failed, and its worker died in the last one",
            outcome::MAX_INTEGRATION_TRIES
        ));
    }
    // Its push may have arrived.
    if open.state == IntegrationState::Decided {
        return None;
    }
    let is_last = after_loss(one, task) == NextStep::NeedsReview;
    is_last.then(|| {
        format!(
            "its work is pushed; {}",
            retry::without_tries(loss_failure(one), None)
        )
    })
}

/// What follows a loss; counts it.
fn after_loss(one: &Expired, task: &mut Task) -> NextStep {
    // A claim whose answer never arrived says nothing about its task.
    if !one.worker_died {
        return NextStep::Again(Duration::ZERO);
    }
    let facts = retry::Facts {
        with_changes: false,
        max_retries: task.max_retries,
        base: Duration::ZERO,
        jitter: 0.0,
    };
    let (next, trouble) = retry::decide(loss_failure(one), facts, task.trouble);
    task.trouble = trouble;
    next
}

fn loss_failure(one: &Expired) -> Failure {
    match (one.worker_died, one.alone) {
        (false, _) => Failure::OutOfContact,
        (true, true) => Failure::WorkerDied,
        (true, false) => Failure::WorkersDied,
    }
}

/// Ends a task without a further attempt.
pub(in crate::flow) fn give_up(features: &mut Features, task: &mut Task, reviewed: bool) {
    let to = retry::without_attempts(reviewed);
    moved(features, task.feature, task.state, to);
    task.state = to;
    task.next_kind = Some(task.role);
}

/// The features whose run asks a person.
pub(in crate::flow) async fn reviewed(
    conn: &mut PgConnection,
    features: &Features,
) -> sqlx::Result<BTreeSet<FeatureId>> {
    let current = features.values().filter_map(|feature| feature.current_run);
    let runs = store::run::read(conn, &current.map(|run| run.0).collect::<Vec<_>>()).await?;
    let without = runs.iter().filter(|run| !run.settings.review);
    let without: BTreeSet<_> = without.map(|run| run.feature).collect();
    Ok(features
        .keys()
        .copied()
        .filter(|id| !without.contains(id))
        .collect())
}

fn waits(tasks: &HashMap<TaskId, Task>, id: TaskId) -> bool {
    tasks
        .get(&id)
        .is_some_and(|task| task.state == TaskState::NeedsReview)
}
