//! Features: show and control.

pub(crate) mod edit;
pub(crate) mod retention;
pub(crate) mod texts;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{KeepAlive, Sse};
use ralph_shared::ids::{FeatureId, RunId};
use serde::Deserialize;
use sqlx::PgConnection;

use super::body::{Done, RunOptions, Started};
use super::feed;
use crate::api::http::app::App;
use crate::api::http::caller::Caller;
use crate::api::http::idempotency::NewId;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PageQuery, PathParams, QueryParams, words};
use crate::domain::run::RunSettings;
use crate::domain::states::{FeatureState, TaskState};
use crate::flow::control::{self, By, CommandOutcome, FeatureCommand};
use crate::flow::{Signals, edit as features, finish, submit};
use crate::store;
use crate::store::view::{self, Examined, FeatureView, Landing, Page, Progress, TaskFilter, TaskView};

const STATES: [&str; 8] = [
    "draft",
    "planned",
    "ready",
    "running",
    "paused",
    "done",
    "failed",
    "cancelled",
];

/// Filter of a list: statuses separated by commas.
#[derive(Debug, Deserialize)]
pub struct StatusQuery {
    #[serde(default)]
    status: Option<String>,
}

impl StatusQuery {
    /// The requested statuses of tasks.
    ///
    /// # Errors
    /// When a word is not a status of a task.
    pub fn task_states(&self) -> Result<Vec<TaskState>, Problem> {
        words(
            "task status",
            self.status.as_deref(),
            &TaskState::ALL.map(|one| one.into_str()),
        )
    }
}

/// Lists features, newest first.
#[utoipa::path(
    get,
    path = "/features",
    operation_id = "list_features",
    tag = "features",
    params(
        ("status" = Option<Vec<FeatureState>>, Query, style = Form, explode = false, description = "Only items in one of these states"),
        PageQuery
    ),
    responses((status = 200, body = Page<FeatureView>))
)]
pub async fn list(
    State(app): State<App>,
    QueryParams(query): QueryParams<StatusQuery>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Json<Page<FeatureView>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    let states: Vec<FeatureState> = words("feature status", query.status.as_deref(), &STATES)?;
    Ok(Json(
        view::features_page(&mut *app.db().await?, &states, cursor, limit).await?,
    ))
}

/// One feature.
#[utoipa::path(
    get,
    path = "/features/{id}",
    operation_id = "show_feature",
    tag = "features",
    responses((status = 200, body = FeatureView))
)]
pub async fn show(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<FeatureView>, Problem> {
    Ok(Json(read(&app, &id).await?.feature))
}

/// Progress of a feature.
#[utoipa::path(
    get,
    path = "/features/{id}/progress",
    operation_id = "show_progress",
    tag = "features",
    responses((status = 200, body = Progress))
)]
pub async fn progress(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Progress>, Problem> {
    Ok(Json(read(&app, &id).await?))
}

async fn read(app: &App, id: &str) -> Result<Progress, Problem> {
    let mut conn = app.db().await?;
    let id = locate::feature(&mut conn, id).await?;
    view::progress(&mut conn, id, app.deps.settings.lease_ms())
        .await?
        .ok_or_else(|| Problem::deleted("feature"))
}

/// Tasks of a feature in the order of creation.
#[utoipa::path(
    get,
    path = "/features/{id}/tasks",
    operation_id = "list_tasks_of_feature",
    tag = "features",
    params(
        ("status" = Option<Vec<TaskState>>, Query, style = Form, explode = false, description = "Only items in one of these states"),
        PageQuery
    ),
    responses((status = 200, body = Page<TaskView>))
)]
pub async fn tasks(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<StatusQuery>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Json<Page<TaskView>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    let states = query.task_states()?;
    let mut conn = app.db().await?;
    let feature = Some(locate::feature(&mut conn, &id).await?);
    let filter = TaskFilter { feature, states };
    let lease_ms = app.deps.settings.lease_ms();
    Ok(Json(
        view::tasks_page(&mut conn, &filter, cursor, limit, lease_ms).await?,
    ))
}

/// Landed commits of the feature's branch, the last first.
#[utoipa::path(
    get,
    path = "/features/{id}/landings",
    operation_id = "list_landings",
    tag = "features",
    params(PageQuery),
    responses((status = 200, body = Page<Landing>))
)]
pub async fn landings(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Json<Page<Landing>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    let mut conn = app.db().await?;
    let feature = locate::feature(&mut conn, &id).await?;
    Ok(Json(view::landings(&mut conn, feature, cursor, limit).await?))
}

/// Streams the feature's progress at every change until its run ends.
#[utoipa::path(
    get,
    path = "/features/{id}/events",
    operation_id = "watch_feature",
    tag = "features",
    responses((
        status = 200,
        body = Progress,
        content_type = "text/event-stream",
        description = "Server-sent events named `progress`, each with the whole state; the last one when the run has ended"
    ))
)]
pub async fn events(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<impl IntoResponse, Problem> {
    let id = locate::feature(&mut *app.db().await?, &id).await?;
    Ok(
        Sse::new(feed::events(&app.feeds, &app.deps, app.shutdown.clone(), id))
            .keep_alive(KeepAlive::default()),
    )
}

/// Starts a run.
#[utoipa::path(
    post,
    path = "/features/{id}/run",
    operation_id = "run_feature",
    tag = "features",
    request_body = RunOptions,
    responses((status = 200, body = Started))
)]
pub async fn run(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
    Body(options): Body<RunOptions>,
) -> Result<Json<Started>, Problem> {
    let settings = settings(&app, &id, options).await?;
    run_command(&app, &id, caller.by(new), FeatureCommand::Run(settings)).await
}

/// Starts a run in which sessions write the tasks.
#[utoipa::path(
    post,
    path = "/features/{id}/build",
    operation_id = "build_feature",
    tag = "features",
    request_body = RunOptions,
    responses((status = 200, body = Started))
)]
pub async fn build(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
    Body(options): Body<RunOptions>,
) -> Result<Json<Started>, Problem> {
    let settings = settings(&app, &id, options).await?;
    run_command(&app, &id, caller.by(new), FeatureCommand::Build(settings)).await
}

/// Material for approvals: tasks that wait for a person, that weakened tests, or that reviewed the feature,
/// with their work and its verdicts.
#[utoipa::path(
    get,
    path = "/features/{id}/review",
    operation_id = "show_review",
    tag = "features",
    params(PageQuery),
    responses((status = 200, body = Page<Examined>))
)]
pub async fn examined(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Json<Page<Examined>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    let mut conn = app.db().await?;
    let feature = locate::feature(&mut conn, &id).await?;
    Ok(Json(
        view::examined_page(&mut conn, feature, cursor, limit, app.deps.settings.lease_ms()).await?,
    ))
}

/// Starts a run that reviews the work done so far.
#[utoipa::path(
    post,
    path = "/features/{id}/review",
    operation_id = "review_feature",
    tag = "features",
    request_body = RunOptions,
    responses((status = 200, body = Started))
)]
pub async fn review(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
    Body(options): Body<RunOptions>,
) -> Result<Json<Started>, Problem> {
    let settings = settings(&app, &id, options).await?;
    run_command(&app, &id, caller.by(new), FeatureCommand::Review(settings)).await
}

/// The settings of a run: the requested ones, else those of the last run.
pub(super) async fn settings(app: &App, id: &str, options: RunOptions) -> Result<Box<RunSettings>, Problem> {
    let ceilings = &app.deps.settings.ceilings;
    options.check(ceilings).map_err(super::submit::invalid_settings)?;
    let feature = locate::feature(&mut *app.db().await?, id).await?;
    settings_after_last(app, feature, options).await
}

/// Completes checked options with the settings of the feature's last run.
pub(super) async fn settings_after_last(
    app: &App,
    feature: FeatureId,
    options: RunOptions,
) -> Result<Box<RunSettings>, Problem> {
    let mut conn = app.db().await?;
    let tasks = view::features(&mut conn, &[feature.0])
        .await?
        .first()
        .map_or(0, |feature| feature.tasks.total);
    let options = as_before(&mut conn, feature, options).await?;
    let settings = options
        .settings(usize::try_from(tasks).unwrap_or(0))
        .map_err(super::submit::invalid_settings)?;
    Ok(Box::new(settings.within(&app.deps.settings.ceilings)))
}

/// Completes options with the settings of the feature's last run, else of its draft.
async fn as_before(
    conn: &mut PgConnection,
    feature: FeatureId,
    options: RunOptions,
) -> sqlx::Result<RunOptions> {
    if let Some(last) = store::run::last(conn, feature).await? {
        return Ok(options.after(&last.settings));
    }
    let draft = submit::first_run(conn, feature).await?;
    Ok(match draft {
        Some(draft) => options.of_draft(&draft),
        None => options,
    })
}

/// Pauses a feature: live sessions continue to their ends, and no new session starts.
#[utoipa::path(
    post,
    path = "/features/{id}/pause",
    operation_id = "pause_feature",
    tag = "features",
    responses((status = 200, body = Started))
)]
pub async fn pause(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
) -> Result<Json<Started>, Problem> {
    run_command(&app, &id, caller.by(new), FeatureCommand::Pause).await
}

/// Resumes a paused feature.
#[utoipa::path(
    post,
    path = "/features/{id}/resume",
    operation_id = "resume_feature",
    tag = "features",
    responses((status = 200, body = Started))
)]
pub async fn resume(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
) -> Result<Json<Started>, Problem> {
    run_command(&app, &id, caller.by(new), FeatureCommand::Resume).await
}

/// Ends the run: live sessions end in an orderly way, and a further run continues with the remaining tasks.
#[utoipa::path(
    post,
    path = "/features/{id}/stop",
    operation_id = "stop_feature",
    tag = "features",
    responses((status = 200, body = Started))
)]
pub async fn stop(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
) -> Result<Json<Started>, Problem> {
    let by = caller.by(new);
    let feature = locate::feature(&mut *app.db().await?, &id).await?;
    let db = &app.deps.db;
    let outcome = store::retry_serialization(|| finish::stop(db, feature, by)).await?;
    started(&app, feature, outcome).await
}

/// Ends a feature for good.
#[utoipa::path(
    post,
    path = "/features/{id}/cancel",
    operation_id = "cancel_feature",
    tag = "features",
    responses((status = 200, body = Started))
)]
pub async fn cancel(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
) -> Result<Json<Started>, Problem> {
    run_command(&app, &id, caller.by(new), FeatureCommand::Cancel).await
}

/// Deletes a feature without a run under way.
#[utoipa::path(
    delete,
    path = "/features/{id}",
    operation_id = "delete_feature",
    tag = "features",
    responses((status = 200, body = Done))
)]
pub async fn remove(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Done>, Problem> {
    let feature = locate::feature(&mut *app.db().await?, &id).await?;
    let db = &app.deps.db;
    match store::retry_serialization(|| features::delete_feature(db, feature)).await? {
        CommandOutcome::Done(count) => Ok(Json(Done::of(count))),
        CommandOutcome::NotFound => Err(Problem::deleted("feature")),
        CommandOutcome::Refused(why) => Err(Problem::conflict(why)),
    }
}

pub(super) async fn run_command(
    app: &App,
    id: &str,
    by: By<'_>,
    command: FeatureCommand,
) -> Result<Json<Started>, Problem> {
    let feature = locate::feature(&mut *app.db().await?, id).await?;
    let db = &app.deps.db;
    let outcome = store::retry_serialization(|| control::feature_by(db, feature, &command, by)).await?;
    started(app, feature, outcome).await
}

async fn started(
    app: &App,
    feature: FeatureId,
    (outcome, run, signals): (CommandOutcome, Option<RunId>, Signals),
) -> Result<Json<Started>, Problem> {
    match outcome {
        CommandOutcome::Done(_) => {
            app.deps.bus.emit(signals).await;
            Ok(Json(Started {
                feature: feature.short(),
                run: run.map(|run| run.short()),
            }))
        }
        CommandOutcome::NotFound => Err(Problem::deleted("feature")),
        CommandOutcome::Refused(why) => Err(Problem::conflict(why)),
    }
}
