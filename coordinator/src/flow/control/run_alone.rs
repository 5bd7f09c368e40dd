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

/// Starts the run. The inner error says why it can't start.
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

/// Why a run of this task alone would not work on it.
async fn refusal(conn: &mut PgConnection, task: &Task) -> sqlx::Result<Option<String>> {
    let (id, state) = (task.id, task.state.into_str());
    Ok(match task.state {
        TaskState::Pending if task.held => Some(format!(
            "{id} is held by a failed task beside or above it; retry or skip that one first"
        )),
        TaskState::Pending | TaskState::InProgress => None,
        TaskState::Blocked => {
            let blockers = store::task::dependencies::open_above(conn, id).await?;
            let named: Vec<String> = blockers
                .iter()
                .map(|blocker| format!("{} `{}` ({})", blocker.id, blocker.key, blocker.state.into_str()))
                .collect();
            Some(format!(
                "{id} waits for {}; run those first, or continue without one by `task skip`",
                named.join(", ")
            ))
        }
        TaskState::Failed | TaskState::NeedsReview => Some(format!(
            "{id} is {state}; reopen it with `task retry {id} --no-run`, then run it"
        )),
        TaskState::Done => Some(format!(
            "{id} is done; if it landed, `task revert {id} --redo` repeats it"
        )),
        TaskState::Cancelled | TaskState::Skipped => Some(format!(
            "{id} is {state}; reopen it with `task retry {id} --no-run`, then run it"
        )),
    })
}
