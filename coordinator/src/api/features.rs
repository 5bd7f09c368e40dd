//! Features: looked at and steered.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::response::sse::{KeepAlive, Sse};
use serde::Deserialize;

use super::app::App;
use super::body::{Done, RunWish, Started};
use super::problem::Problem;
use super::request::{Asked, Body, PageQuery, words};
use super::{feed, locate};
use crate::domain::states::{FeatureState, TaskState};
use crate::flow::edit;
use crate::flow::steer::{self, FeatureCommand, Steered};
use crate::store;
use crate::store::view::{self, FeatureView, Page, Progress, TaskFilter, TaskView};

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

/// Which rows a list shows: words with commas between them.
#[derive(Debug, Deserialize)]
pub struct StatusQuery {
    #[serde(default)]
    status: Option<String>,
}

impl StatusQuery {
    /// The statuses of tasks that are asked for.
    ///
    /// # Errors
    /// When a word is no status of a task.
    pub fn task_states(&self) -> Result<Vec<TaskState>, Problem> {
        words(
            "task status",
            self.status.as_deref(),
            &TaskState::ALL.map(TaskState::as_str),
        )
    }
}

/// Features, newest first.
pub async fn list(
    State(app): State<App>,
    Asked(query): Asked<StatusQuery>,
    Asked(page): Asked<PageQuery>,
) -> Result<Json<Page<FeatureView>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    let states: Vec<FeatureState> = words("feature status", query.status.as_deref(), &STATES)?;
    Ok(Json(
        view::features_page(&mut *app.db().await?, &states, cursor, limit).await?,
    ))
}

/// One feature.
pub async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<FeatureView>, Problem> {
    Ok(Json(read(&app, &id).await?.feature))
}

/// How far a feature is.
pub async fn progress(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Progress>, Problem> {
    Ok(Json(read(&app, &id).await?))
}

async fn read(app: &App, id: &str) -> Result<Progress, Problem> {
    let mut conn = app.db().await?;
    let id = locate::feature(&mut conn, id).await?;
    view::progress(&mut conn, id)
        .await?
        .ok_or_else(|| Problem::not_found("the feature was deleted meanwhile"))
}

/// Its tasks, in the order in which they were made.
pub async fn tasks(
    State(app): State<App>,
    Path(id): Path<String>,
    Asked(query): Asked<StatusQuery>,
    Asked(page): Asked<PageQuery>,
) -> Result<Json<Page<TaskView>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    let states = query.task_states()?;
    let mut conn = app.db().await?;
    let feature = Some(locate::feature(&mut conn, &id).await?);
    let filter = TaskFilter { feature, states };
    Ok(Json(view::tasks_page(&mut conn, &filter, cursor, limit).await?))
}

/// How far it is, each time that it changes, until its run is over.
pub async fn events(State(app): State<App>, Path(id): Path<String>) -> Result<impl IntoResponse, Problem> {
    let id = locate::feature(&mut *app.db().await?, &id).await?;
    Ok(Sse::new(feed::events(&app, id)).keep_alive(KeepAlive::default()))
}

/// Starts a run.
pub async fn run(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(wish): Body<RunWish>,
) -> Result<Json<Started>, Problem> {
    let mut conn = app.db().await?;
    let feature = locate::feature(&mut conn, &id).await?;
    let tasks = view::features(&mut conn, &[feature.0])
        .await?
        .first()
        .map_or(0, |feature| feature.tasks.total);
    let wish = match store::run::last(&mut conn, feature).await? {
        Some(last) => wish.after(&last.settings),
        None => wish,
    };
    drop(conn);
    let settings = wish
        .settings(usize::try_from(tasks).unwrap_or(0))
        .map_err(|error| Problem::invalid(error.to_string()))?;
    steer(&app, &id, FeatureCommand::Run(Box::new(settings))).await
}

/// Lets what runs end, starts nothing new.
pub async fn pause(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Started>, Problem> {
    steer(&app, &id, FeatureCommand::Pause).await
}

/// Goes on after a pause.
pub async fn resume(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Started>, Problem> {
    steer(&app, &id, FeatureCommand::Resume).await
}

/// Ends it.
pub async fn cancel(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Started>, Problem> {
    steer(&app, &id, FeatureCommand::Cancel).await
}

/// Deletes a feature that doesn't run.
pub async fn remove(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Done>, Problem> {
    let feature = locate::feature(&mut *app.db().await?, &id).await?;
    let db = &app.deps.db;
    match store::retry_serialization(|| edit::delete_feature(db, feature)).await? {
        Steered::Done(count) => Ok(Json(Done { count })),
        Steered::NotFound => Err(Problem::not_found("the feature was deleted meanwhile")),
        Steered::Refused(why) => Err(Problem::conflict(why)),
    }
}

async fn steer(app: &App, id: &str, command: FeatureCommand) -> Result<Json<Started>, Problem> {
    let feature = locate::feature(&mut *app.db().await?, id).await?;
    let db = &app.deps.db;
    let (steered, run, signals) =
        store::retry_serialization(|| steer::feature(db, feature, &command)).await?;
    match steered {
        Steered::Done(_) => {
            app.deps.bus.emit(signals).await;
            Ok(Json(Started {
                feature: feature.short(),
                run: run.map(|run| run.short()),
            }))
        }
        Steered::NotFound => Err(Problem::not_found("the feature was deleted meanwhile")),
        Steered::Refused(why) => Err(Problem::conflict(why)),
    }
}
