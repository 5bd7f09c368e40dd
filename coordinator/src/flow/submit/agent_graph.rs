//! Task graphs from sessions: new tasks of their feature, or parts of their own task (SPEC 2.6, 4.1).

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::machine::is_dir_pool;
use ralph_shared::sigil::Sigils;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::graph::{self, Graph, Limits};
use crate::domain::run::ITERATIONS_A_TASK;
use crate::domain::states::TaskState;
use crate::prompt::{self, Templates};
use crate::store;
use crate::store::edit::TaskEdit;
use crate::store::task::{NewTask, Task};
use crate::{domain::run::defaults::TaskDefaults, flow::submit::rows};

/// The graph of a session, or a one-task graph with the changes that a review requests without a graph.
pub(in crate::flow) fn asked_for(sigils: &Sigils) -> String {
    if let Some(graph) = &sigils.task_graph {
        return graph.clone();
    }
    of_changes(sigils.review_changes.as_deref().unwrap_or_default())
}

/// A graph of one task that makes these changes.
pub(in crate::flow) fn of_changes(changes: &str) -> String {
    serde_json::json!([{
        "key": "changes",
        "title": "Make the changes that the review asks for",
        "description": changes,
    }])
    .to_string()
}

/// Checks a graph that waits for approval, from an agent or (`by_person`) from a person.
pub(in crate::flow) fn check(text: &str, by_person: bool) -> Result<(), String> {
    let limits = if by_person {
        Limits::file()
    } else {
        Limits::agent()
    };
    load(text, &limits).map(|_| ())
}

fn load(text: &str, limits: &Limits) -> Result<Graph, String> {
    graph::load("the task-graph sigil", text, limits)
        .map_err(|errors| format!("the task graph can't be used:\n{errors}"))
}

/// Why the graph that a session of `task` is about to send cannot be used. Stores nothing.
pub(in crate::flow) async fn problem(
    conn: &mut PgConnection,
    templates: &Templates,
    task: &Task,
    kind: SessionKind,
    text: &str,
) -> sqlx::Result<Option<String>> {
    if kind == SessionKind::Work
        && let Some(problem) = split_refusal(conn, templates, task).await?
    {
        return Ok(Some(problem));
    }
    Ok(from_agent(conn, task, text).await?.err())
}

async fn split_refusal(
    conn: &mut PgConnection,
    templates: &Templates,
    parent: &Task,
) -> sqlx::Result<Option<String>> {
    // Only a landing ends a change of branches, and its parts would not land as one.
    if parent.role != SessionKind::Work {
        return Ok(Some(prompt::of_a_conflict(templates)));
    }
    let deep = store::task::depth(conn, parent.id).await? >= MOST_DEPTH;
    Ok(deep.then(|| prompt::too_deep(templates, MOST_DEPTH)))
}

/// Deepest nesting of splits. A task that is still too large there needs a person. Levels.
const MOST_DEPTH: i32 = 8;

/// The graph from a session of `task`, with defaults for its tasks. Its pools and agents must exist (SPEC
/// 2.6). The parts are verified when `task` is.
async fn from_agent(
    conn: &mut PgConnection,
    task: &Task,
    text: &str,
) -> sqlx::Result<Result<(Vec<NewTask>, Vec<(TaskId, TaskId)>), String>> {
    let pool = store::task::pool_of(conn, task.id).await?;
    // Parts of work in one machine's folder run on that machine.
    let mut pools = match is_dir_pool(&pool) {
        true => BTreeSet::new(),
        false => store::worker::known_pools(conn).await?,
    };
    pools.insert(pool.clone());
    let limits = Limits {
        pools: Some(pools),
        agents: Some(store::worker::known_agents(conn).await?),
        ..Limits::agent()
    };
    let graph = match load(text, &limits) {
        Ok(graph) => graph,
        Err(problem) => return Ok(Err(problem)),
    };
    let defaults = TaskDefaults {
        max_retries: task.max_retries,
        verify: task.verify,
        pool,
    };
    let (mut tasks, edges) = rows(&graph, &defaults);
    for part in &mut tasks {
        part.verify |= task.verify;
        // An agent must not set a limit of the whole installation.
        part.concurrency = None;
    }
    Ok(Ok((tasks, edges)))
}

/// Whether a person gave the graph that this step would have made, so that nobody worked on it.
fn is_given(step: &Task) -> bool {
    step.role == SessionKind::Build && step.attempt == 0
}

/// The graph that a person gave instead of `step`, with defaults for its tasks.
async fn from_person(
    conn: &mut PgConnection,
    step: &Task,
    text: &str,
) -> sqlx::Result<Result<(Vec<NewTask>, Vec<(TaskId, TaskId)>), String>> {
    let graph = match graph::load("the task graph", text, &Limits::file()) {
        Ok(graph) => graph,
        Err(errors) => return Ok(Err(format!("the task graph can't be used:\n{errors}"))),
    };
    let defaults = TaskDefaults {
        max_retries: step.max_retries,
        verify: step.verify,
        pool: store::task::pool_of(conn, step.id).await?,
    };
    store::queue::concurrency_keys::declare(conn, step.feature, graph.keys()).await?;
    Ok(Ok(rows(&graph, &defaults)))
}

/// Adds the graph from a session of `step`, or from a person, to its feature, and iterations for it to the
/// run. The inner error is for the agent's next attempt.
pub(in crate::flow) async fn grow(
    conn: &mut PgConnection,
    step: &Task,
    text: &str,
) -> sqlx::Result<Result<Vec<Child>, String>> {
    let made = match is_given(step) {
        true => from_person(conn, step, text).await?,
        false => from_agent(conn, step, text).await?,
    };
    let (tasks, edges) = match made {
        Ok(added) => added,
        Err(problem) => return Ok(Err(problem)),
    };
    store::task::insert(conn, step.feature, &tasks, &edges).await?;
    store::task::hold_new(conn, &ids(&tasks)).await?;
    allow(conn, step.feature, tasks.len()).await?;
    Ok(Ok(tasks.iter().map(Child::of).collect()))
}

fn ids(tasks: &[NewTask]) -> Vec<Uuid> {
    tasks.iter().map(|task| task.id.0).collect()
}

/// Most iterations to which such a limit grows: agents could split tasks for ever.
const MOST_GROWN_ITERATIONS: i32 = 5_000;

pub(in crate::flow) async fn allow(
    conn: &mut PgConnection,
    feature: FeatureId,
    tasks: usize,
) -> sqlx::Result<()> {
    let more = i32::try_from(tasks.saturating_mul(ITERATIONS_A_TASK)).unwrap_or(i32::MAX);
    store::run::allow(conn, feature, more, MOST_GROWN_ITERATIONS).await
}

/// A child that a split made.
#[derive(Debug, Clone, Copy)]
pub struct Child {
    pub id: TaskId,
    pub state: TaskState,
    pub ready: bool,
    pub parent: Option<TaskId>,
}

impl Child {
    fn of(task: &NewTask) -> Self {
        Self {
            id: task.id,
            state: task.state(),
            ready: task.open_blockers == 0 && task.children == 0,
            parent: task.parent,
        }
    }
}

/// Adds an agent's graph as the children of its task. The inner error is for the agent's next attempt.
pub async fn split(
    conn: &mut PgConnection,
    templates: &Templates,
    parent: &Task,
    text: &str,
) -> sqlx::Result<Result<Vec<Child>, String>> {
    if let Some(problem) = split_refusal(conn, templates, parent).await? {
        return Ok(Err(problem));
    }
    let (mut tasks, edges) = match from_agent(conn, parent, text).await? {
        Ok(added) => added,
        Err(problem) => return Ok(Err(problem)),
    };
    let top = i32::try_from(tasks.iter().filter(|task| task.parent.is_none()).count()).unwrap_or(i32::MAX);
    // The first parts, however deep, start from the attempt's commit (SPEC 4.1).
    for task in tasks
        .iter_mut()
        .filter(|task| task.open_blockers == 0 && task.children == 0)
    {
        task.start_commit = parent.start_commit.clone();
        task.start_ref = parent.start_ref.clone();
    }
    let whole = store::edit::values(conn, parent.id).await?.unwrap_or_default();
    let key = store::queue::concurrency_keys::of_task(conn, parent.id).await?;
    for task in &mut tasks {
        task.concurrency = key.clone();
        inherit(task, &whole);
    }
    for task in tasks.iter_mut().filter(|task| task.parent.is_none()) {
        task.parent = Some(parent.id);
    }
    store::task::insert(conn, parent.feature, &tasks, &edges).await?;
    store::task::become_parent(conn, parent.id, top).await?;
    store::task::hold_new(conn, &ids(&tasks)).await?;
    allow(conn, parent.feature, tasks.len()).await?;
    Ok(Ok(tasks.iter().map(Child::of).collect()))
}

/// Passes a person's choices for the whole task on to a part without its own. Another pool may lack the
/// agent, and another agent the model.
fn inherit(part: &mut NewTask, whole: &TaskEdit) {
    if part.priority == 0 {
        part.priority = whole.priority.unwrap_or_default();
    }
    if part.agent.is_none() && Some(&part.pool) == whole.pool.as_ref() {
        part.agent = whole.agent.clone();
    }
    if part.model.is_none() && part.agent == whole.agent {
        part.model = whole.model.clone();
    }
}
