//! A run of one task and its parts, apart from the rest of its feature.

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use sqlx::PgConnection;

use crate::domain::run::RunSettings;
use crate::domain::states::TaskState;
use crate::domain::status::suggestion::{self, FeatureVerb};
use crate::flow::{Signals, cascade, finish, integrate, submit};
use crate::store;
use crate::store::task::Task;

/// Starts it. The inner error says why it can't.
pub(in crate::flow) async fn start(
    conn: &mut PgConnection,
    feature: FeatureId,
    (run, task): (RunId, TaskId),
    settings: &RunSettings,
    signals: &mut Signals,
) -> sqlx::Result<Result<RunId, String>> {
    let of_one = BTreeSet::from([feature]);
    let mut features = cascade::lock_features(conn, &of_one).await?;
    let Some(held) = features.get_mut(&feature) else {
        return Ok(Err("the feature was deleted meanwhile".to_owned()));
    };
    let Some(found) = store::task::lock(conn, &[task.0]).await?.pop() else {
        return Ok(Err("the task was deleted meanwhile".to_owned()));
    };
    if let Some(why) = refusal(conn, &found).await? {
        return Ok(Err(why));
    }
    if !submit::may_start(held) {
        return Ok(Err(suggestion::of_feature(
            FeatureVerb::Run,
            held.state,
            &held.name,
        )));
    }
    submit::begin(conn, held, (run, Some(task)), settings, signals).await?;
    cascade::save_features(conn, &features, signals).await?;
    integrate::promote(conn, &of_one, signals).await?;
    finish::check(conn, &mut features, signals).await?;
    cascade::save_features(conn, &features, signals).await?;
    Ok(Ok(run))
}

/// Why nobody would work on the task in a run of its own.
async fn refusal(conn: &mut PgConnection, task: &Task) -> sqlx::Result<Option<String>> {
    let (id, state) = (task.id, task.state.as_str());
    Ok(match task.state {
        TaskState::Pending if task.held => Some(format!(
            "{id} is held by a failed task beside or above it; retry or skip that one first"
        )),
        TaskState::Pending | TaskState::InProgress => None,
        TaskState::Blocked => {
            let blockers = store::task::dependencies::open_above(conn, id).await?;
            let named: Vec<String> = blockers
                .iter()
                .map(|blocker| format!("{} `{}` ({})", blocker.id, blocker.key, blocker.state.as_str()))
                .collect();
            Some(format!(
                "{id} waits for {}; run what it waits for first, `task skip` goes on without one",
                named.join(", ")
            ))
        }
        TaskState::Failed | TaskState::NeedsReview => Some(format!(
            "{id} is {state}; `task retry {id} --no-run` lets it be tried again, then run it"
        )),
        TaskState::Done => Some(format!(
            "{id} is done; where it landed, `task revert {id} --redo` does it again"
        )),
        TaskState::Cancelled | TaskState::Skipped => Some(format!(
            "{id} is {state}; `task retry {id} --no-run` lets it be done after all, then run it"
        )),
    })
}
