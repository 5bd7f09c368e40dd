//! Tasks: looked at and steered.

use axum::Json;
use axum::extract::{Path, State};
use ralph_shared::subjects::is_label;

use super::app::App;
use super::body::{Done, EditTask, Steer};
use super::features::StatusQuery;
use super::locate;
use super::problem::Problem;
use super::request::{Asked, Body, PageQuery};
use crate::flow::steer::{self, Steered, TaskCommand};
use crate::flow::{approve, edit};
use crate::store;
use crate::store::edit::TaskEdit;
use crate::store::view::{self, LogEntry, Page, TaskDetail, TaskFilter, TaskView};

/// Rows of a tree or a log.
const MAX_ROWS: i64 = 10_000;
/// Who does what comes through the API, in the log of a task.
const ACTOR: &str = "a person";

/// Tasks of all features, in the order in which they were made.
pub async fn list(
    State(app): State<App>,
    Asked(query): Asked<StatusQuery>,
    Asked(page): Asked<PageQuery>,
) -> Result<Json<Page<TaskView>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    let filter = TaskFilter {
        feature: None,
        states: query.task_states()?,
    };
    Ok(Json(
        view::tasks_page(&mut *app.db().await?, &filter, cursor, limit).await?,
    ))
}

/// One task with everything around it.
pub async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<TaskDetail>, Problem> {
    let mut conn = app.db().await?;
    let id = locate::task(&mut conn, &id).await?;
    let detail = view::detail(&mut conn, id).await?;
    detail.map(Json).ok_or_else(gone)
}

/// A task and everything below it.
pub async fn tree(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Page<TaskView>>, Problem> {
    let mut conn = app.db().await?;
    let id = locate::task(&mut conn, &id).await?;
    Ok(Json(Page::whole(view::subtree(&mut conn, id, MAX_ROWS).await?)))
}

/// What was done to a task, by whom and why.
pub async fn log(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Page<LogEntry>>, Problem> {
    let mut conn = app.db().await?;
    let id = locate::task(&mut conn, &id).await?;
    Ok(Json(Page::whole(
        view::log_of_task(&mut conn, id, MAX_ROWS).await?,
    )))
}

/// Changes a task that doesn't run.
pub async fn edit(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(body): Body<EditTask>,
) -> Result<Json<Done>, Problem> {
    if body == EditTask::default() {
        return Err(Problem::invalid(
            "there is nothing to change; name at least one field",
        ));
    }
    let wrong = match &body {
        EditTask {
            title: Some(title), ..
        } if title.trim().is_empty() || title.contains('\n') => {
            Some("`title` must be one line, and not empty")
        }
        EditTask { pool: Some(pool), .. } if !is_label(pool) => Some("`pool` is 1 to 40 of a-z, 0-9 and `-`"),
        EditTask {
            max_retries: Some(n), ..
        } if !(0..=100).contains(n) => Some("`max_retries` is 0 to 100"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        return Err(Problem::invalid(wrong));
    }
    let change = TaskEdit {
        title: body.title,
        description: body.description,
        priority: body.priority,
        pool: body.pool,
        agent: body.agent,
        model: body.model,
        max_retries: body.max_retries,
        verify: body.verify,
    };
    let task = locate::task(&mut *app.db().await?, &id).await?;
    let db = &app.deps.db;
    let (steered, signals) = store::retry_serialization(|| edit::task(db, task, &change, ACTOR)).await?;
    app.deps.bus.emit(signals).await;
    told(steered)
}

/// Does a command to a task.
pub async fn command(
    State(app): State<App>,
    Path((id, verb)): Path<(String, String)>,
    Body(body): Body<Steer>,
) -> Result<Json<Done>, Problem> {
    let command = match verb.as_str() {
        "skip" => TaskCommand::Skip,
        "cancel" => TaskCommand::Cancel,
        "fail" => TaskCommand::Fail,
        "done" => TaskCommand::Done,
        "retry" => TaskCommand::Retry,
        "release" => TaskCommand::Release,
        "approve" => return approve(&app, &id, &body).await,
        "interrupt" => return interrupt(&app, &id, &body).await,
        _ => {
            return Err(Problem::not_found(format!(
                "there is no command `{verb}` for tasks; there are retry, approve, skip, cancel, fail, done, release, interrupt"
            )));
        }
    };
    let task = locate::task(&mut *app.db().await?, &id).await?;
    let (db, why) = (&app.deps.db, body.reason.as_deref());
    let (steered, signals) =
        store::retry_serialization(|| steer::task(db, task, command, ACTOR, why)).await?;
    app.deps.bus.emit(signals).await;
    told(steered)
}

async fn approve(app: &App, id: &str, body: &Steer) -> Result<Json<Done>, Problem> {
    let task = locate::task(&mut *app.db().await?, id).await?;
    let (db, why) = (&app.deps.db, body.reason.as_deref());
    let (steered, signals) = store::retry_serialization(|| approve::approve(db, task, ACTOR, why)).await?;
    app.deps.bus.emit(signals).await;
    told(steered)
}

async fn interrupt(app: &App, id: &str, body: &Steer) -> Result<Json<Done>, Problem> {
    let task = locate::task(&mut *app.db().await?, id).await?;
    let (db, feedback) = (&app.deps.db, body.reason.as_deref());
    let (steered, signals) =
        store::retry_serialization(|| steer::interrupt(db, task, ACTOR, feedback)).await?;
    app.deps.bus.emit(signals).await;
    told(steered)
}

fn told(steered: Steered) -> Result<Json<Done>, Problem> {
    match steered {
        Steered::Done(count) => Ok(Json(Done { count })),
        Steered::NotFound => Err(gone()),
        Steered::Refused(why) => Err(Problem::conflict(why)),
    }
}

fn gone() -> Problem {
    Problem::not_found("the task was deleted meanwhile")
}
