//! Tasks: show, edit and control.

pub(crate) mod dependencies;
pub(crate) mod run_alone;

use axum::Json;
use axum::extract::State;
use ralph_shared::ids::RunId;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::StrDeserializer;

use super::body::{AnswerQuestion, CommandOptions, Done, EditTask};
use super::features::StatusQuery;
use super::submit::graph_of;
use crate::api::http::app::App;
use crate::api::http::caller::Caller;
use crate::api::http::idempotency::NewId;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PageQuery, PathParams, QueryParams};
use crate::api::submit::dirs::ELSEWHERE;
use crate::domain::graph::{Located, TaskEntry};
use crate::domain::question::AnswerInput;
use crate::domain::states::TaskState;
use crate::flow::control::{self, By, CommandOutcome, TaskCommand};
use crate::flow::edit::remove;
use crate::flow::{Signals, control::approve, edit};
use crate::store;
use crate::store::dispatch::FEEDBACK_CHARS;
use crate::store::edit::TaskEdit;
use crate::store::view::{self, LogEntry, Page, TaskDetail, TaskFilter, TaskView};

/// Most rows of a log; the newest ones.
const MAX_ROWS: i64 = 10_000;

/// Lists tasks of all features in the order of creation.
#[utoipa::path(
    get,
    path = "/tasks",
    operation_id = "list_tasks",
    tag = "tasks",
    params(
        ("status" = Option<Vec<TaskState>>, Query, style = Form, explode = false, description = "Only tasks in one of these states"),
        PageQuery
    ),
    responses((status = 200, body = Page<TaskView>))
)]
pub async fn list(
    State(app): State<App>,
    QueryParams(query): QueryParams<StatusQuery>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Json<Page<TaskView>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    let filter = TaskFilter {
        feature: None,
        states: query.task_states()?,
    };
    Ok(Json(
        view::tasks_page(
            &mut *app.db().await?,
            &filter,
            cursor,
            limit,
            app.deps.settings.lease_ms(),
        )
        .await?,
    ))
}

/// One task with its description, relations and dispatches.
#[utoipa::path(
    get,
    path = "/tasks/{id}",
    operation_id = "show_task",
    tag = "tasks",
    responses((status = 200, body = TaskDetail))
)]
pub async fn show(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<TaskDetail>, Problem> {
    let mut conn = app.db().await?;
    let id = locate::task(&mut conn, &id).await?;
    let detail = view::detail(&mut conn, id, app.deps.settings.lease_ms()).await?;
    detail.map(Json).ok_or_else(|| Problem::deleted("task"))
}

/// A task and all tasks below it in the order of creation.
#[utoipa::path(
    get,
    path = "/tasks/{id}/tree",
    operation_id = "show_tree",
    tag = "tasks",
    params(PageQuery),
    responses((status = 200, body = Page<TaskView>))
)]
pub async fn tree(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Json<Page<TaskView>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    let mut conn = app.db().await?;
    let id = locate::task(&mut conn, &id).await?;
    let lease_ms = app.deps.settings.lease_ms();
    Ok(Json(view::subtree(&mut conn, id, cursor, limit, lease_ms).await?))
}

/// Changes to a task, with actors and reasons.
#[utoipa::path(
    get,
    path = "/tasks/{id}/log",
    operation_id = "show_log",
    tag = "tasks",
    responses((status = 200, body = Page<LogEntry>))
)]
pub async fn log(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Page<LogEntry>>, Problem> {
    let mut conn = app.db().await?;
    let id = locate::task(&mut conn, &id).await?;
    Ok(Json(Page::whole(
        view::log_of_task(&mut conn, id, MAX_ROWS).await?,
    )))
}

/// Edits a task without a live session.
#[utoipa::path(
    patch,
    path = "/tasks/{id}",
    operation_id = "edit_task",
    tag = "tasks",
    request_body = EditTask,
    responses((status = 200, body = Done))
)]
pub async fn edit(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Body(body): Body<EditTask>,
) -> Result<Json<Done>, Problem> {
    if body == EditTask::default() {
        return Err(Problem::refused(
            "there is nothing to change; name at least one field",
        ));
    }
    check(&body)?;
    let before = body.before;
    let change = TaskEdit {
        title: body.title,
        description: body.description,
        priority: body.priority,
        pool: body.pool,
        agent: body.agent,
        model: body.model,
        max_retries: body.max_retries,
        verify: body.verify,
        paths: body.paths,
    };
    let mut conn = app.db().await?;
    let task = locate::task(&mut conn, &id).await?;
    if change.pool.is_some()
        && let Some(feature) = store::task::feature_of(&mut conn, task).await?
        && store::feature::dir_pool(&mut conn, feature).await?.is_some()
    {
        return Err(Problem::refused(ELSEWHERE));
    }
    drop(conn);
    let db = &app.deps.db;
    let edited =
        store::retry_serialization(|| edit::task(db, task, &change, before.as_deref(), caller.name()))
            .await?;
    command_result(&app, edited, "task").await
}

/// Checks an edited task against the rules of a graph's entry.
fn check(body: &EditTask) -> Result<(), Problem> {
    if body.max_retries.is_some_and(|n| n < 0) {
        return Err(Problem::invalid("`max_retries` is 0 to 100"));
    }
    let edited = TaskEntry {
        key: Located {
            value: "task".to_owned(),
            line: 0,
        },
        title: body.title.clone().unwrap_or_else(|| "unchanged".to_owned()),
        description: body.description.clone(),
        pool: body.pool.clone(),
        agent: body.agent.clone(),
        model: body.model.clone(),
        max_retries: body.max_retries.and_then(|n| u32::try_from(n).ok()),
        paths: body.paths.clone().unwrap_or_default(),
        ..TaskEntry::default()
    };
    graph_of(edited).map(drop)
}

/// Deletes a task without a live session.
#[utoipa::path(
    delete,
    path = "/tasks/{id}",
    operation_id = "delete_task",
    tag = "tasks",
    responses((status = 200, body = Done))
)]
pub async fn remove(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Done>, Problem> {
    let task = locate::task(&mut *app.db().await?, &id).await?;
    let db = &app.deps.db;
    let removed = store::retry_serialization(|| remove::task(db, task, caller.name())).await?;
    command_result(&app, removed, "task").await
}

/// A command on a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Try the task again.
    Retry,
    /// Accept the result that waits for a person.
    Approve,
    /// Send the result back; the next session reads the `reason`, which is required.
    Reject,
    /// Give the next session the `reason`, which is required; a live session continues.
    Feedback,
    /// Continue without the task.
    Skip,
    /// End the task; tasks that depend on it do not start.
    Cancel,
    /// Mark the task as failed for good.
    Fail,
    /// Mark the task as done, regardless of its sessions.
    Done,
    /// Take the task from its worker.
    Release,
    /// End its session in an orderly way and give the `reason` to the next one.
    Interrupt,
    /// Send its live session the `reason`, which is required, as its next turn.
    Say,
}

impl Verb {
    fn parse(word: &str) -> Result<Self, Problem> {
        let reader: StrDeserializer<'_, serde::de::value::Error> = word.into_deserializer();
        Self::deserialize(reader).map_err(|_| {
            Problem::not_found(format!(
                "there is no command `{word}` for tasks; use one of retry, approve, reject, feedback, skip, cancel, fail, done, release, interrupt, say"
            ))
        })
    }
}

/// Executes a command on a task.
#[utoipa::path(
    post,
    path = "/tasks/{id}/{command}",
    operation_id = "command_task",
    tag = "tasks",
    params(("command" = inline(Verb), Path, description = "The command")), request_body = CommandOptions,
    responses((status = 200, body = Done))
)]
pub async fn command(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams((id, verb)): PathParams<(String, String)>,
    Body(body): Body<CommandOptions>,
) -> Result<Json<Done>, Problem> {
    check_reason(body.reason.as_deref())?;
    let by = By {
        resumes: body.resume.unwrap_or(true),
        ..caller.by(new)
    };
    let verb = Verb::parse(&verb)?;
    let why = body.reason.as_deref();
    let words = match verb {
        Verb::Reject | Verb::Feedback | Verb::Say => required_reason(&body)?,
        _ => "",
    };
    let task = locate::task(&mut *app.db().await?, &id).await?;
    let db = &app.deps.db;
    let command = match verb {
        Verb::Skip => TaskCommand::Skip,
        Verb::Cancel => TaskCommand::Cancel,
        Verb::Fail => TaskCommand::Fail,
        Verb::Done => TaskCommand::Done,
        Verb::Retry => TaskCommand::Retry,
        Verb::Release => TaskCommand::Release,
        Verb::Reject => TaskCommand::Reject,
        Verb::Feedback => {
            let outcome = store::retry_serialization(|| control::feedback(db, task, by, words)).await?;
            return command_result(&app, (outcome, Signals::default()), "task").await;
        }
        Verb::Approve => {
            let result = store::retry_serialization(|| approve::approve(db, task, by, why)).await?;
            return command_result(&app, result, "task").await;
        }
        Verb::Interrupt => {
            let result = store::retry_serialization(|| control::interrupt(db, task, by, why)).await?;
            return command_result(&app, result, "task").await;
        }
        Verb::Say => {
            let result = store::retry_serialization(|| control::say(db, task, by, words)).await?;
            return command_result(&app, result, "task").await;
        }
    };
    let result = store::retry_serialization(|| control::task(db, task, command, by, why)).await?;
    command_result(&app, result, "task").await
}

/// Refuses a reason that is too long for prompts instead of cutting it.
pub(super) fn check_reason(reason: Option<&str>) -> Result<(), Problem> {
    let chars = reason.map_or(0, |reason| reason.chars().count());
    if i32::try_from(chars).is_ok_and(|chars| chars <= FEEDBACK_CHARS) {
        return Ok(());
    }
    Err(Problem::refused(format!(
        "the `reason` has {chars} characters, but a session reads at most {FEEDBACK_CHARS}; shorten it, and put the rest into the \
         task's description (`task edit`)"
    )))
}

/// The reason of a command that needs one.
fn required_reason(body: &CommandOptions) -> Result<&str, Problem> {
    let reason = body.reason.as_deref().filter(|reason| !reason.trim().is_empty());
    reason.ok_or_else(|| Problem::refused("this command needs a text for the session: give a `reason`"))
}

/// Answers a question of a task's sessions: the question with the given id, else the first one that a session
/// waits for.
#[utoipa::path(
    post,
    path = "/tasks/{id}/answer",
    operation_id = "answer_question",
    tag = "tasks",
    request_body = AnswerQuestion,
    responses((status = 200, body = Done))
)]
pub async fn answer(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    PathParams(id): PathParams<String>,
    Body(body): Body<AnswerQuestion>,
) -> Result<Json<Done>, Problem> {
    let given = match (&body.answer, body.choice) {
        (Some(text), None) => AnswerInput::Text(text),
        (None, Some(choice)) => AnswerInput::Choice(choice),
        _ => return Err(Problem::refused("give an `answer` or the number of a `choice`")),
    };
    check_reason(body.answer.as_deref())?;
    let by = By {
        resumes: body.resume.unwrap_or(true),
        ..caller.by(new)
    };
    let task = locate::task(&mut *app.db().await?, &id).await?;
    let db = &app.deps.db;
    let result = store::retry_serialization(|| control::answer(db, task, by, body.question, given)).await?;
    command_result(&app, result, "task").await
}

/// Emits the signals of a command on `what`, and answers with the first resumed run.
pub(super) async fn command_result(
    app: &App,
    (outcome, signals): (CommandOutcome, Signals),
    what: &str,
) -> Result<Json<Done>, Problem> {
    let run = signals.resumed.first().map(RunId::short);
    app.deps.bus.emit(signals).await;
    match outcome {
        CommandOutcome::Done(count) => Ok(Json(Done { count, run })),
        CommandOutcome::NotFound => Err(Problem::deleted(what)),
        CommandOutcome::Refused(why) => Err(Problem::conflict(why)),
    }
}
