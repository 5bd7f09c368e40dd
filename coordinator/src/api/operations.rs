//! Branch operations on a feature: update, revert, merge.

use axum::Json;
use axum::extract::State;
use ralph_shared::branch;
use ralph_shared::ids::{FeatureId, RunId, TaskId};
use sqlx::PgPool;

use super::body::{BranchOperations, MergeFeature, RevertTask, RunOptions};
use crate::api::http::app::App;
use crate::api::http::caller::Caller;
use crate::api::http::idempotency::NewId;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PathParams};
use crate::flow::Signals;
use crate::flow::control::{self, CommandOutcome, FeatureCommand};
use crate::flow::integrate::operations::{self, MergeRequest, Operated, RevertRequest};
use crate::store;

/// Merges the base branch into the feature's branch.
#[utoipa::path(
    post,
    path = "/features/{id}/update",
    operation_id = "update_feature",
    tag = "features",
    responses((status = 201, body = BranchOperations))
)]
pub async fn update(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
) -> OperationResult {
    let feature = locate::feature(&mut *app.db().await?, &id).await?;
    let (db, templates) = (&app.deps.db, &app.deps.settings.templates);
    let operated = match created_before(db, new).await? {
        Some(made) => made,
        None => {
            let id = TaskId(new.id);
            store::retry_serialization(|| operations::update(db, templates, feature, id, caller.name()))
                .await?
        }
    };
    start_run(&app, feature, operated).await
}

/// Merges the feature's branch into another branch.
#[utoipa::path(
    post,
    path = "/features/{id}/merge",
    operation_id = "merge_feature",
    tag = "features",
    request_body = MergeFeature,
    responses((status = 201, body = BranchOperations))
)]
pub async fn merge(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
    Body(options): Body<MergeFeature>,
) -> OperationResult {
    let asked = MergeRequest {
        how: options.how,
        into: options.into.as_deref(),
        partial: options.partial,
    };
    if let Some(into) = asked.into {
        branch::check(into).map_err(|error| Problem::refused(error.to_string()))?;
    }
    let feature = locate::feature(&mut *app.db().await?, &id).await?;
    let db = &app.deps.db;
    let operated = match created_before(db, new).await? {
        Some(made) => made,
        None => {
            let id = TaskId(new.id);
            store::retry_serialization(|| operations::merge(db, feature, id, asked, caller.name())).await?
        }
    };
    start_run(&app, feature, operated).await
}

/// Reverts what a task landed.
#[utoipa::path(
    post,
    path = "/tasks/{id}/revert",
    operation_id = "revert_task",
    tag = "tasks",
    request_body = RevertTask,
    responses((status = 201, body = BranchOperations))
)]
pub async fn revert(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
    Body(options): Body<RevertTask>,
) -> OperationResult {
    super::tasks::check_reason(options.reason.as_deref())?;
    let mut conn = app.db().await?;
    let task = locate::task(&mut conn, &id).await?;
    let feature = store::task::feature_of(&mut conn, task).await?;
    drop(conn);
    let Some(feature) = feature else {
        return Err(Problem::deleted("feature or the task"));
    };
    let how = RevertRequest {
        redo: options.redo,
        dependents: options.dependents,
    };
    let (db, templates) = (&app.deps.db, &app.deps.settings.templates);
    let why = options.reason.as_deref();
    let operated = match created_before(db, new).await? {
        Some(made) => made,
        None => {
            let first = TaskId(new.id);
            let revert = || operations::revert(db, templates, task, first, how, why, caller.name());
            store::retry_serialization(revert).await?
        }
    };
    start_run(&app, feature, operated).await
}

/// The tasks that an earlier try with the same key created before its coordinator died.
async fn created_before(db: &PgPool, new: NewId) -> sqlx::Result<Option<(Operated, Signals)>> {
    if !new.again {
        return Ok(None);
    }
    let made = operations::made_before(db, TaskId(new.id)).await?;
    Ok(made.map(|tasks| (Operated::Accepted(tasks), Signals::default())))
}

type OperationResult = Result<(axum::http::StatusCode, Json<BranchOperations>), Problem>;

/// Starts a run with the settings of the last one when no run is under way, so that these tasks do not wait.
/// If other tasks are open, which a person may hold back, the operation waits for the next run.
async fn start_run(
    app: &App,
    feature: FeatureId,
    (operated, signals): (Operated, Signals),
) -> OperationResult {
    let tasks: Vec<TaskId> = match operated {
        Operated::Accepted(tasks) => tasks,
        Operated::NotFound => return Err(Problem::deleted("feature or the task")),
        Operated::Refused(why) => return Err(Problem::conflict(why)),
        Operated::Unfinished(why) => return Err(Problem::unfinished(why)),
    };
    app.deps.bus.emit(signals).await;
    let alone = store::git::operation::progress(&mut *app.db().await?, feature)
        .await?
        .open
        == 0;
    let answer = |run: Option<RunId>| {
        let operating = BranchOperations {
            feature: feature.short(),
            tasks: tasks.iter().map(TaskId::short).collect(),
            run: run.map(|run| run.short()),
        };
        Ok((axum::http::StatusCode::CREATED, Json(operating)))
    };
    if !alone {
        return answer(None);
    }
    let settings = super::features::settings_after_last(app, feature, RunOptions::default()).await?;
    let command = FeatureCommand::Run(settings);
    let db = &app.deps.db;
    let (outcome, run, signals) =
        store::retry_serialization(|| control::feature(db, feature, &command)).await?;
    if matches!(outcome, CommandOutcome::Done(_)) {
        app.deps.bus.emit(signals).await;
    }
    answer(run)
}
