//! A validated graph becomes rows, in one transaction: the whole of it or none (SPEC 2.1, 2.6).

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use sqlx::{PgConnection, PgPool};

use super::{Signals, finish};
use crate::domain::graph::{self, Graph, Limits};
use crate::domain::run::RunSettings;
use crate::domain::states::{FeatureState, TaskState};
use crate::store;
use crate::store::feature::NewFeature;
use crate::store::task::{NewTask, Task};

/// What is submitted.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The feature.
    pub feature: NewFeature,
    /// Its tasks.
    pub graph: Graph,
    /// What a task gets that doesn't say otherwise.
    pub defaults: TaskDefaults,
    /// Limits and choices of its run; `None` leaves it a draft.
    pub run: Option<RunSettings>,
}

/// What a task gets that doesn't say otherwise.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct TaskDefaults {
    pub max_retries: i32,
    pub verify: bool,
    pub pool: String,
}

/// What came of it.
#[derive(Debug, Clone)]
pub enum Submitted {
    /// It stands.
    Accepted {
        /// The run, if it was started.
        run: Option<RunId>,
        /// How many tasks it has.
        tasks: usize,
        /// The ids of the tasks, in the graph's order.
        ids: Vec<TaskId>,
    },
    /// The repository has a feature of that name.
    NameTaken,
}

/// Stores a submission and starts its run.
pub async fn submit(db: &PgPool, submission: &Submission) -> sqlx::Result<(Submitted, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    if !store::feature::insert(&mut tx, &submission.feature).await? {
        return Ok((Submitted::NameTaken, signals));
    }
    let feature = submission.feature.id;
    let (tasks, edges) = rows(&submission.graph, &submission.defaults);
    store::task::insert(&mut tx, feature, &tasks, &edges).await?;
    let mut features = super::cascade::lock_features(&mut tx, &BTreeSet::from([feature])).await?;
    if let Some(held) = features.get_mut(&feature) {
        for task in &tasks {
            held.counts.add(task.state(), 1);
        }
        held.state = if tasks.is_empty() {
            FeatureState::Draft
        } else {
            FeatureState::Ready
        };
    }
    super::cascade::save_features(&mut tx, &features, &mut signals).await?;
    let run = match &submission.run {
        Some(settings) => start(&mut tx, feature, settings, &mut signals).await?,
        None => None,
    };
    tx.commit().await?;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    Ok((
        Submitted::Accepted {
            run,
            tasks: tasks.len(),
            ids,
        },
        signals,
    ))
}

/// Starts a run of a feature whose row the caller may or may not hold. `None` when it can't start as it stands.
pub async fn start(
    conn: &mut PgConnection,
    feature: FeatureId,
    settings: &RunSettings,
    signals: &mut Signals,
) -> sqlx::Result<Option<RunId>> {
    let mut features = super::cascade::lock_features(conn, &BTreeSet::from([feature])).await?;
    let Some(held) = features.get_mut(&feature) else {
        return Ok(None);
    };
    if !matches!(
        held.state,
        FeatureState::Ready | FeatureState::Planned | FeatureState::Failed
    ) {
        return Ok(None);
    }
    let run = RunId::new();
    store::run::insert(conn, run, feature, settings).await?;
    held.state = FeatureState::Running;
    held.current_run = Some(run);
    super::cascade::save_features(conn, &features, signals).await?;
    signals.got_work(store::ready::enqueue_feature(conn, feature).await?);
    super::integrate::promote(conn, &BTreeSet::from([feature]), signals).await?;
    finish::check(conn, &mut features, signals).await?;
    super::cascade::save_features(conn, &features, signals).await?;
    Ok(Some(run))
}

/// The rows and edges of a graph, parents before children.
pub(super) fn rows(graph: &Graph, defaults: &TaskDefaults) -> (Vec<NewTask>, Vec<(TaskId, TaskId)>) {
    let ids: Vec<TaskId> = graph.nodes.iter().map(|_| TaskId::new()).collect();
    let mut edges = Vec::with_capacity(graph.edges);
    let tasks = graph
        .nodes
        .iter()
        .zip(&ids)
        .map(|(node, &id)| {
            edges.extend(node.after.iter().map(|&blocker| (id, ids[blocker as usize])));
            NewTask {
                id,
                parent: node.parent.map(|parent| ids[parent as usize]),
                key: node.key.clone(),
                title: node.title.clone(),
                description: node.description.clone(),
                priority: node.priority,
                pool: node.pool.clone().unwrap_or_else(|| defaults.pool.clone()),
                agent: node.agent.clone(),
                model: node.model.clone(),
                max_retries: node
                    .max_retries
                    .map_or(defaults.max_retries, |n| i32::try_from(n).unwrap_or(i32::MAX)),
                verify: node.verify.unwrap_or(defaults.verify),
                open_blockers: i32::try_from(node.open_blockers).unwrap_or(i32::MAX),
                children: i32::try_from(node.open_children).unwrap_or(i32::MAX),
                start_commit: None,
                start_ref: None,
            }
        })
        .collect();
    (tasks, edges)
}

/// A child that a split made.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Child {
    pub id: TaskId,
    pub state: TaskState,
    pub ready: bool,
}

/// Hangs the graph that an agent sent under its task. The inner error is for the agent's next attempt.
pub async fn split(
    conn: &mut PgConnection,
    parent: &Task,
    text: &str,
) -> sqlx::Result<Result<Vec<Child>, String>> {
    let graph = match graph::load("the task-graph sigil", text, &Limits::agent()) {
        Ok(graph) => graph,
        Err(errors) => return Ok(Err(format!("the task graph can't be used:\n{errors}"))),
    };
    let pool = store::task::pool_of(conn, parent.id).await?;
    let defaults = TaskDefaults {
        max_retries: parent.max_retries,
        verify: parent.verify,
        pool,
    };
    let (mut tasks, edges) = rows(&graph, &defaults);
    let top = i32::try_from(tasks.iter().filter(|task| task.parent.is_none()).count()).unwrap_or(i32::MAX);
    for task in tasks.iter_mut().filter(|task| task.parent.is_none()) {
        task.parent = Some(parent.id);
        if task.open_blockers == 0 {
            task.start_commit = parent.start_commit.clone();
            task.start_ref = parent.start_ref.clone();
        }
    }
    store::task::insert(conn, parent.feature, &tasks, &edges).await?;
    store::task::become_parent(conn, parent.id, top).await?;
    Ok(Ok(tasks
        .iter()
        .map(|task| Child {
            id: task.id,
            state: task.state(),
            ready: task.open_blockers == 0 && task.children == 0,
        })
        .collect()))
}
