//! Submits a feature with its graph, or one task.

pub(crate) mod agents;
pub(crate) mod checks;
pub(crate) mod dirs;
pub(crate) mod provided;
pub(crate) mod repository;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;

use super::body::{
    Accepted, BudgetOptions, DirRef, GraphText, RepoRef, RunOptions, SubmitFeature, SubmitTask,
};
use crate::api::http::app::App;
use crate::api::http::caller::Caller;
use crate::api::http::idempotency::NewId;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::Body;
use crate::api::submit::checks::{check_merge, check_name, checked_parallel, limits, names_no_pool};
pub(super) use crate::api::submit::checks::{
    checked_pool, checked_retries, checked_rounds, invalid_settings,
};
use crate::api::submit::dirs::{pool_for, pool_of_addition, set_dir, warn_unserved};
use crate::api::submit::repository::Repository;
use crate::domain::graph::{self, Graph, GraphErrors, GraphFile, Limits, Located, TaskEntry};
use crate::domain::names;
use crate::domain::names::repository::normalised;
use crate::domain::run::{DEFAULT_MAX_PARALLEL, RunSettings};
use crate::domain::steps::{self, Provided};
use crate::flow;
use crate::flow::submit::add_task::{self, Added, Addition};
use crate::store;
use crate::store::feature::NewFeature;
use crate::store::feature::priority::Precedence;
use crate::store::view::{self, Cursor, TaskFilter, TaskView};
use crate::{
    domain::run::defaults::TaskDefaults,
    flow::submit::{self, Start, Submission, Submitted},
};

const DEFAULT_REVIEW_ROUNDS: i32 = 2;

type SubmitResult = Result<(StatusCode, Json<Accepted>), Problem>;

/// Submits a feature and starts its run.
#[utoipa::path(
    post,
    path = "/features",
    operation_id = "submit_feature",
    tag = "features",
    request_body = SubmitFeature,
    responses((status = 201, body = Accepted), (status = 409))
)]
pub async fn feature(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    Body(mut request): Body<SubmitFeature>,
) -> SubmitResult {
    let id = FeatureId(new.id);
    if let Some(accepted) = created_before(&app, new).await? {
        return Ok((StatusCode::CREATED, Json(accepted)));
    }
    check_name(&request.name)?;
    check_caller(&caller, request.repo.as_ref(), request.dir.as_ref())?;
    let approve = approved(&request.approve)?;
    let tasks = request.tasks.take();
    let text = tasks.as_ref().map(|tasks| tasks.text.clone());
    let mut graph = read_graph(tasks).await?;
    let texts_given = Provided::new(
        request.description.as_deref().unwrap_or_default(),
        request.spec.as_deref(),
        request.plan.as_deref(),
        graph.nodes.len(),
    );
    let Some(steps) = steps::missing(texts_given).or(request.draft.then_some(&[])) else {
        return Err(Problem::refused(steps::NOTHING_TO_START_WITH));
    };
    let review_rounds = review_rounds(request.review_rounds, steps)?;
    let waits = provided::waiting(&approve, texts_given, steps, text, request.draft)?;
    let warnings = graph.warnings.iter();
    let warnings: Vec<String> = warnings.map(|w| w.describe(&graph.source_name)).collect();
    let settings = granted(&app, &request.run, graph.nodes.len())?;
    let start = if request.draft { Start::Later } else { Start::Now };
    let limits = limits(&app, &request.budgets, "").await?;
    let max_parallel = checked_parallel(request.max_parallel, request.dir.is_some())?;
    if request.dir.is_some() {
        names_no_pool(&graph)?;
    }
    let pool = request.pool.take();
    let defaults = defaults(
        request.max_retries,
        request.verify,
        pool_for(request.dir.as_ref(), pool),
    )?;
    let mut feature = feature_of(&app, id, request).await?;
    feature.max_parallel = max_parallel;
    feature.approve = approve;
    feature.review_rounds = review_rounds;
    if waits.graph.is_some() {
        graph = no_tasks();
    }
    let submission = Submission {
        feature,
        graph,
        defaults,
        limits,
        start: start(settings),
    };
    let mut accepted = store_submission(&app, &submission, &waits).await?;
    accepted.warnings.extend(warnings);
    Ok((StatusCode::CREATED, Json(accepted)))
}

fn review_rounds(given: Option<i32>, steps: &[SessionKind]) -> Result<i32, Problem> {
    match given {
        None if steps.is_empty() => Ok(0),
        None => Ok(DEFAULT_REVIEW_ROUNDS),
        Some(rounds) => checked_rounds(rounds),
    }
}

/// The feature of a submission, without its tasks.
async fn feature_of(app: &App, id: FeatureId, request: SubmitFeature) -> Result<NewFeature, Problem> {
    let texts = Texts {
        description: request.description.unwrap_or_default(),
        spec: request.spec,
        plan: request.plan,
    };
    let repo = resolved(app, request.repo).await?;
    let mut feature = new_feature(id, &request.name, texts, repo);
    feature.failure_policy = request.failure_policy;
    feature.merge = request.merge;
    feature.avoid_conflicts = request.avoid_conflicts;
    feature.precedence = request.precedence.checked().map_err(Problem::refused)?;
    set_dir(&mut feature, request.dir)?;
    check_merge(&feature)?;
    Ok(feature)
}

async fn resolved(app: &App, repo: Option<RepoRef>) -> Result<Option<Repository>, Problem> {
    match repo {
        Some(repo) => repository::resolved(repo, &app.deps.settings.repositories)
            .await
            .map(Some),
        None => Ok(None),
    }
}

fn defaults(
    max_retries: Option<i32>,
    verify: Option<bool>,
    pool: Result<String, Problem>,
) -> Result<TaskDefaults, Problem> {
    Ok(TaskDefaults {
        max_retries: checked_retries(max_retries)?,
        verify: verify.unwrap_or(true),
        pool: pool?,
    })
}

/// Adds a task to a feature, or creates a feature for it.
#[utoipa::path(
    post,
    path = "/tasks",
    operation_id = "submit_task",
    tag = "tasks",
    request_body = SubmitTask,
    responses((status = 201, body = Accepted), (status = 404), (status = 409))
)]
pub async fn task(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    Body(request): Body<SubmitTask>,
) -> SubmitResult {
    match &request.feature {
        Some(feature) => into_feature(&app, &caller, new, feature, &request).await,
        None => {
            check_caller(&caller, request.repo.as_ref(), request.dir.as_ref())?;
            into_new_feature(&app, new, request).await
        }
    }
}

fn check_caller(caller: &Caller, repo: Option<&RepoRef>, dir: Option<&DirRef>) -> Result<(), Problem> {
    match (repo, dir) {
        (Some(repo), _) => {
            caller.may_name(Some(&normalised(&repo.address)))?;
            // The identity is the scope of memory and names.
            repo.id.as_deref().map_or(Ok(()), |id| caller.may_name(Some(id)))
        }
        (None, Some(_)) => caller.may_name(None),
        (None, None) => Ok(()),
    }
}

async fn into_new_feature(app: &App, new: NewId, request: SubmitTask) -> SubmitResult {
    let id = FeatureId(new.id);
    if let Some(accepted) = created_before(app, new).await? {
        return Ok((StatusCode::CREATED, Json(accepted)));
    }
    if request.parent.is_some() || !request.after.is_empty() {
        return Err(Problem::refused(
            "name the feature of the tasks that this one belongs to (--feature)",
        ));
    }
    let graph = one_task(&request)?;
    let settings = granted(app, &request.run, 1)?;
    let limits = limits(app, &request.budgets, "").await?;
    let name = names::for_task(&request.title, id);
    let texts = Texts {
        description: request.title.clone(),
        ..Texts::default()
    };
    let pool = pool_for(request.dir.as_ref(), request.pool)?;
    let repo = resolved(app, request.repo).await?;
    let mut feature = new_feature(id, &name, texts, repo);
    set_dir(&mut feature, request.dir)?;
    let submission = Submission {
        feature,
        graph,
        defaults: defaults(request.max_retries, request.verify, Ok(pool))?,
        limits,
        start: Start::Now(settings),
    };
    let accepted = store_submission(
        app,
        &submission,
        &flow::submit::provided::ProvidedResults::default(),
    )
    .await?;
    Ok((StatusCode::CREATED, Json(accepted)))
}

async fn into_feature(
    app: &App,
    caller: &Caller,
    new: NewId,
    feature: &str,
    request: &SubmitTask,
) -> SubmitResult {
    check_addition(request)?;
    // Checks the task against the rules of a graph's entry.
    let graph = one_task(request)?;
    let feature = locate::feature(&mut *app.db().await?, feature).await?;
    let id = TaskId(new.id);
    if new.again
        && let Some(made) = single(app, &[id]).await?
    {
        let accepted = accepted(app, feature, 1, Some(made)).await?;
        return Ok((StatusCode::CREATED, Json(accepted)));
    }
    let mut conn = app.db().await?;
    let (parent, after) = relations(&mut conn, request).await?;
    let folder_pool = store::feature::dir_pool(&mut conn, feature).await?;
    let repository = store::feature::repository(&mut conn, feature).await?.flatten();
    if repository.is_some() || folder_pool.is_some() {
        caller.may_name(repository.as_deref().map(normalised).as_deref())?;
    }
    drop(conn);
    let limit = limits(app, &request.budgets, &feature.0.to_string())
        .await?
        .pop()
        .map(|(_, limit)| limit);
    let addition = Addition {
        id,
        graph,
        key_is_chosen: request.key.is_some(),
        parent,
        after,
        limit,
        defaults: defaults(
            request.max_retries,
            request.verify,
            pool_of_addition(folder_pool, &request.pool),
        )?,
        actor: caller.name(),
    };
    let (added, signals) =
        store::retry_serialization(|| add_task::add(&app.deps.db, feature, &addition)).await?;
    match added {
        Added::Accepted => {
            app.deps.bus.emit(signals).await;
            store::flush(&app.deps.db).await?;
            let made = single(app, &[id]).await?;
            let mut accepted = accepted(app, feature, 1, made).await?;
            accepted.warnings = agents::unknown(app, named(&addition.graph)).await?;
            Ok((StatusCode::CREATED, Json(accepted)))
        }
        Added::NoFeature => Err(Problem::deleted("feature")),
        Added::Refused(why) => Err(Problem::conflict(why)),
    }
}

/// Refuses a repository, folder or limits, which a task takes from its feature.
fn check_addition(request: &SubmitTask) -> Result<(), Problem> {
    if request.repo.is_some() || request.dir.is_some() {
        return Err(Problem::refused(
            "a task of a feature uses the repository or folder of that feature; omit `repo` and `dir`",
        ));
    }
    let own = BudgetOptions {
        task: request.budgets.task,
        ..BudgetOptions::default()
    };
    if request.budgets != own {
        return Err(Problem::refused(
            "a task of a feature has the limits of that feature: give only `budgets.task`, or set other limits with `budget set`",
        ));
    }
    Ok(())
}

/// The parent and the blockers of a task.
async fn relations(
    conn: &mut PgConnection,
    request: &SubmitTask,
) -> Result<(Option<TaskId>, Vec<TaskId>), Problem> {
    let parent = match &request.parent {
        Some(parent) => Some(locate::task(conn, parent).await?),
        None => None,
    };
    let mut after: Vec<TaskId> = Vec::new();
    for blocker in &request.after {
        after.push(locate::task(conn, blocker).await?);
    }
    Ok((parent, after))
}

/// The agents that a graph's tasks name.
fn named(graph: &Graph) -> impl Iterator<Item = &str> {
    graph.nodes.iter().filter_map(|node| node.agent.as_deref())
}

async fn store_submission(
    app: &App,
    submission: &Submission,
    waits: &flow::submit::provided::ProvidedResults,
) -> Result<Accepted, Problem> {
    let db = &app.deps.db;
    let (submitted, signals) =
        store::retry_serialization(|| submit::submit_given(db, submission, waits)).await?;
    match submitted {
        Submitted::Accepted { tasks, ids, .. } => {
            app.deps.bus.emit(signals).await;
            store::flush(db).await?;
            let made = single(app, &ids).await?;
            let mut accepted = accepted(app, submission.feature.id, tasks, made).await?;
            accepted.warnings.extend(warn_unserved(app, submission).await?);
            let (Start::Now(settings) | Start::Later(settings)) = &submission.start;
            let named = settings
                .agent
                .as_deref()
                .into_iter()
                .chain(named(&submission.graph));
            accepted.warnings.extend(agents::unknown(app, named).await?);
            Ok(accepted)
        }
        Submitted::NameTaken => Err(Problem::conflict(format!(
            "a feature `{name}` stands already; look at it with `ralph feature show {name}`, or choose another \
             name",
            name = submission.feature.name
        ))),
        Submitted::BranchTaken(why) => Err(Problem::conflict(why)),
    }
}

/// The result of an earlier try with the same key, if that try created the feature before its coordinator
/// died.
async fn created_before(app: &App, new: NewId) -> Result<Option<Accepted>, Problem> {
    if !new.again {
        return Ok(None);
    }
    let mut conn = app.db().await?;
    let feature = FeatureId(new.id);
    let Some(made) = view::features(&mut conn, &[new.id]).await?.pop() else {
        return Ok(None);
    };
    let filter = TaskFilter {
        feature: Some(feature),
        states: Vec::new(),
    };
    let first = view::tasks_page(
        &mut conn,
        &filter,
        Cursor::default(),
        1,
        app.deps.settings.lease_ms(),
    )
    .await?
    .items
    .pop();
    drop(conn);
    let total = usize::try_from(made.tasks.total).unwrap_or_default();
    let single = first.filter(|_| total == 1);
    Ok(Some(accepted(app, feature, total, single).await?))
}

/// The submitted task, if there is only one.
async fn single(app: &App, ids: &[TaskId]) -> Result<Option<TaskView>, Problem> {
    let [id] = ids else { return Ok(None) };
    let lease_ms = app.deps.settings.lease_ms();
    Ok(view::tasks(&mut *app.db().await?, &[id.0], lease_ms).await?.pop())
}

async fn accepted(
    app: &App,
    feature: FeatureId,
    tasks: usize,
    single: Option<TaskView>,
) -> Result<Accepted, Problem> {
    let view = view::features(&mut *app.db().await?, &[feature.0]).await?.pop();
    let feature = view.ok_or_else(|| Problem::deleted("feature"))?;
    let (task, key) = single.map(|task| (task.id, task.key)).unzip();
    Ok(Accepted {
        run: feature
            .run
            .as_ref()
            .filter(|run| run.outcome.is_none())
            .map(|run| run.id.clone()),
        feature,
        tasks,
        task,
        key,
        warnings: Vec::new(),
    })
}

/// Parses a graph on a blocking thread, since 100,000 tasks take a while.
async fn read_graph(text: Option<GraphText>) -> Result<Graph, Problem> {
    let Some(text) = text else {
        return Ok(no_tasks());
    };
    let read = move || graph::load(&text.source, &text.text, &Limits::file());
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(graph)) => Ok(graph),
        Ok(Err(errors)) => Err(Problem::graph(&errors)),
        Err(_) => Err(Problem::invalid("could not read the task graph")),
    }
}

fn no_tasks() -> Graph {
    Graph {
        nodes: Vec::new(),
        edges: 0,
        warnings: Vec::new(),
        source_name: String::new(),
    }
}

fn one_task(request: &SubmitTask) -> Result<Graph, Problem> {
    let key = request.key.clone();
    graph_of(TaskEntry {
        key: Located {
            value: key.unwrap_or_else(|| names::key_for(&request.title)),
            line: 0,
        },
        title: request.title.clone(),
        description: Some(request.description.clone()).filter(|text| !text.is_empty()),
        priority: Some(request.priority),
        agent: request.agent.clone(),
        model: request.model.clone(),
        paths: request.paths.clone(),
        concurrency: request.concurrency.clone(),
        not_before: request.not_before.clone(),
        ..TaskEntry::default()
    })
}

/// A graph of one task, checked against the rules of a graph.
pub(super) fn graph_of(task: TaskEntry) -> Result<Graph, Problem> {
    let file = GraphFile {
        tasks: vec![task],
        source_name: "the task".to_owned(),
        warnings: Vec::new(),
    };
    graph::validate(file, &Limits::file()).map_err(|errors: GraphErrors| Problem::graph(&errors))
}

#[derive(Default)]
struct Texts {
    description: String,
    spec: Option<String>,
    plan: Option<String>,
}

fn new_feature(id: FeatureId, name: &str, texts: Texts, repo: Option<Repository>) -> NewFeature {
    let branch = repo
        .as_ref()
        .map(|repo| repo.branch.clone().unwrap_or_else(|| names::branch(name)));
    let (repo_id, address, base_ref, base_commit) = match repo {
        Some(repo) => (
            repo.id,
            Some(repo.address),
            Some(repo.base_ref),
            Some(repo.base_commit),
        ),
        None => (String::new(), None, None, None),
    };
    NewFeature {
        id,
        name: name.to_owned(),
        repo_id,
        repo_address: address,
        base_ref,
        base_commit,
        branch,
        max_parallel: DEFAULT_MAX_PARALLEL,
        failure_policy: crate::domain::states::FailurePolicy::default(),
        description: texts.description,
        spec: texts.spec,
        plan: texts.plan,
        approve: Vec::new(),
        review_rounds: 0,
        merge: None,
        avoid_conflicts: false,
        dir: None,
        precedence: Precedence::default(),
    }
}

fn approved(results: &[String]) -> Result<Vec<SessionKind>, Problem> {
    let steps = results.iter().map(|result| {
        steps::of_result(result).ok_or_else(|| {
            Problem::invalid(format!(
                "`{result}` can't be approved; choose from spec, plan and tasks"
            ))
        })
    });
    steps.collect()
}

/// The requested settings of a run, limited by the coordinator's ceilings.
fn granted(app: &App, options: &RunOptions, tasks: usize) -> Result<RunSettings, Problem> {
    let ceilings = &app.deps.settings.ceilings;
    options.check(ceilings).map_err(invalid_settings)?;
    Ok(options
        .settings(tasks)
        .map_err(invalid_settings)?
        .within(ceilings))
}
