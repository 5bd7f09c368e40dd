//! Removes attempt refs from the remote when their retention ends or a person asks for it (DESIGN 6).
//! Coordinators have no git, so a worker does it: it asks, and reports the result. Repeated or concurrent
//! work changes nothing more.

use std::time::Duration;

use ralph_shared::ids::FeatureId;
use ralph_shared::wire::{AttemptRef, Control, PruneAnswer, PruneRequest, Repository};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::retention::{Facts, RefFate, RetentionReason, decide};
use crate::flow::{Settings, Signals};
use crate::store;
use crate::store::git::retention::KnownRef;

/// Refs in one answer.
const REFS: usize = 500;
/// Features that one sweep asks for.
const FEATURES: i64 = 200;
/// Longest stored reason why refs could not be removed. Bytes.
const ERROR_BYTES: usize = 4 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PruneRequestOutcome {
    /// The refs to remove. With `dry_run`, nothing removes them.
    Planned(Plan),
    NotFound,
    /// It is impossible, with the reason.
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Full names of refs to remove, if known to be pushed.
    pub going: Vec<String>,
    pub staying: Vec<(String, RetentionReason)>,
    /// Number of further refs whose attempts ended too recently.
    pub recent: usize,
    /// Minimum age of removed refs since the end of their attempt.
    pub age: Duration,
    /// Why the last try failed, if it did.
    pub error: Option<String>,
}

/// Requests removal of the refs of a feature's attempts that ended longer ago than `older_than` (default: the configured
/// retention). With `dry_run` it only lists them.
pub async fn request_prune(
    db: &PgPool,
    settings: &Settings,
    feature: FeatureId,
    older_than: Option<Duration>,
    dry_run: bool,
) -> sqlx::Result<(PruneRequestOutcome, Signals)> {
    let mut signals = Signals::default();
    let Some(age) = older_than.or(settings.keep_attempts) else {
        let why = "attempts are kept for ever here (`[workspace] keep_attempts_days = 0`); give a minimum age: \
                   `--older-than 30d`";
        return Ok((PruneRequestOutcome::Refused(why.to_owned()), signals));
    };
    let mut tx = db.begin().await?;
    let Some(text) = store::feature::repository(&mut tx, feature).await? else {
        return Ok((PruneRequestOutcome::NotFound, signals));
    };
    if text.is_none() {
        let why = "the feature has no repository, so there are no branches of attempts".to_owned();
        return Ok((PruneRequestOutcome::Refused(why), signals));
    }
    let before = OffsetDateTime::now_utc() - age;
    let known = store::git::retention::refs(&mut tx, feature, before).await?;
    let all = store::git::retention::refs(&mut tx, feature, OffsetDateTime::now_utc()).await?;
    let pushed = |known: &[KnownRef]| known.iter().filter(|known| known.pushed).count();
    let mut plan = Plan {
        recent: pushed(&all).saturating_sub(pushed(&known)),
        age,
        error: store::git::retention::error(&mut tx, feature).await?,
        ..Plan::default()
    };
    for known in known.into_iter().filter(|known| known.pushed) {
        match fate(&known) {
            RefFate::Goes => plan.going.push(known.name),
            RefFate::Stays(why) => plan.staying.push((known.name, why)),
        }
    }
    if !dry_run {
        store::git::retention::request_prune(&mut tx, feature, before).await?;
        tell_workers(&mut tx, settings, &mut signals).await?;
        tx.commit().await?;
    }
    Ok((PruneRequestOutcome::Planned(plan), signals))
}

fn fate(known: &KnownRef) -> RefFate {
    decide(Facts {
        task: known.task,
        landed: known.landed,
    })
}

async fn tell_workers(
    conn: &mut PgConnection,
    settings: &Settings,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    for worker in store::worker::list(conn, settings.lease_ms()).await? {
        if worker.alive {
            signals.order(&worker.name, Control::Prune);
        }
    }
    Ok(())
}

/// Asks for refs of ended features whose retention is over. Returns the number of features.
pub async fn sweep(db: &PgPool, settings: &Settings) -> sqlx::Result<(u64, Signals)> {
    let mut signals = Signals::default();
    let Some(age) = settings.keep_attempts else {
        return Ok((0, signals));
    };
    let mut tx = db.begin().await?;
    let before = OffsetDateTime::now_utc() - age;
    let asked = store::git::retention::request_prune_of_ended(&mut tx, before, FEATURES).await?;
    if asked > 0 {
        tell_workers(&mut tx, settings, &mut signals).await?;
    }
    tx.commit().await?;
    Ok((asked, signals))
}

/// Records a worker's result, and returns the next refs to remove.
pub async fn next(db: &PgPool, request: &PruneRequest) -> sqlx::Result<PruneAnswer> {
    let mut tx = db.begin().await?;
    if let Some(pruned) = &request.pruned {
        let gone: Vec<Uuid> = pruned.gone.iter().map(|dispatch| dispatch.0).collect();
        let error = pruned.error.as_deref();
        let error = error.map(|text| &text[..text.floor_char_boundary(ERROR_BYTES)]);
        store::git::retention::note(&mut tx, pruned.feature, &gone, error).await?;
    }
    let mut answer = PruneAnswer::Nothing;
    while let Some(next) = store::git::retention::take(&mut tx, &request.pools).await? {
        let known = store::git::retention::refs(&mut tx, next.feature, next.before).await?;
        let refs: Vec<AttemptRef> = known
            .into_iter()
            .filter(|known| fate(known) == RefFate::Goes)
            .take(REFS)
            .map(|known| AttemptRef {
                dispatch: known.dispatch,
                name: known.name,
            })
            .collect();
        if refs.is_empty() {
            store::git::retention::over(&mut tx, next.feature).await?;
            continue;
        }
        answer = PruneAnswer::Refs {
            feature: next.feature,
            repository: Repository {
                address: next.address,
            },
            base: next.base,
            refs,
        };
        break;
    }
    tx.commit().await?;
    Ok(answer)
}
