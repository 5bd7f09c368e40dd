//! Adds a task to an existing feature, running or not, in one transaction (SPEC 2.5, 2.6).

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::agent_graph;
use crate::domain::budget::levels::{Level, Limit};
use crate::domain::graph::Graph;
use crate::domain::names;
use crate::domain::states::{FeatureState, TaskState};
use crate::flow::{Signals, cascade, edit::cycle};
use crate::store;
use crate::store::feature::Locked;
use crate::store::task::waits::Moment;
use crate::store::task::{NewTask, Task};
use crate::{domain::run::defaults::TaskDefaults, flow::submit::rows};

/// A task to add.
#[derive(Debug, Clone)]
pub struct Addition<'a> {
    pub id: TaskId,
    /// One task without edges of its own.
    pub graph: Graph,
    /// Whether its author chose the key. Any other key gets a number where the feature already has it.
    pub key_is_chosen: bool,
    pub parent: Option<TaskId>,
    /// Tasks that must be done before it.
    pub after: Vec<TaskId>,
    pub limit: Option<Limit>,
    /// Values of fields that the task omits.
    pub defaults: TaskDefaults,
    /// Actor in the task's log.
    pub actor: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    Accepted,
    NoFeature,
    /// It cannot be added there, with the reason.
    Refused(String),
}

/// Adds the task. In a running feature, work on it starts as soon as nothing holds it. Answer its author
/// after a [`store::flush`].
pub async fn add(db: &PgPool, feature: FeatureId, addition: &Addition<'_>) -> sqlx::Result<(Added, Signals)> {
    let mut signals = Signals::default();
    let mut tx = store::begin_unflushed(db).await?;
    let mut features = cascade::lock_features(&mut tx, &BTreeSet::from([feature])).await?;
    let Some(held) = features.get_mut(&feature) else {
        return Ok((Added::NoFeature, signals));
    };
    if held.state == FeatureState::Cancelled {
        let why = format!("the feature `{}` is cancelled; submit a new one", held.name);
        return Ok((Added::Refused(why), signals));
    }
    let ids: BTreeSet<Uuid> = addition
        .after
        .iter()
        .chain(&addition.parent)
        .map(|id| id.0)
        .collect();
    let neighbours = store::task::lock(&mut tx, &ids.iter().copied().collect::<Vec<_>>()).await?;
    if let Some(why) = refusal(&mut tx, feature, addition, &neighbours).await? {
        return Ok((Added::Refused(why), signals));
    }
    let task = match new_task(&mut tx, held, addition, &neighbours).await? {
        Ok(task) => task,
        Err(why) => return Ok((Added::Refused(why), signals)),
    };
    let id = task.id;
    let after: BTreeSet<TaskId> = addition.after.iter().copied().collect();
    let edges: Vec<_> = after.into_iter().map(|blocker| (id, blocker)).collect();
    store::queue::concurrency_keys::declare(&mut tx, feature, addition.graph.keys()).await?;
    store::task::insert(&mut tx, feature, std::slice::from_ref(&task), &edges).await?;
    if let Some(limit) = addition.limit {
        let key = (Level::Task, id.0.to_string());
        store::budget::set(&mut tx, &key, Some(limit.cost_usd), Some(limit.tokens)).await?;
    }
    store::task::hold_new(&mut tx, &[id.0]).await?;
    if let Some(parent) = task.parent {
        store::queue::ready::withdraw(&mut tx, &[parent.0]).await?;
        store::task::become_parent(&mut tx, parent, 1).await?;
    }
    held.counts.add(task.state(), 1);
    agent_graph::allow(&mut tx, feature, 1).await?;
    if matches!(
        held.state,
        FeatureState::Draft | FeatureState::Planned | FeatureState::Done
    ) {
        held.state = FeatureState::Ready;
    }
    cascade::save_features(&mut tx, &features, &mut signals).await?;
    store::task::log(&mut tx, id, addition.actor, "submit", None).await?;
    signals.got_work(store::queue::ready::enqueue(&mut tx, &[id.0], &[0]).await?);
    tx.commit().await?;
    Ok((Added::Accepted, signals))
}

/// The task with a free key and its open blockers, counted among the locked neighbours.
async fn new_task(
    conn: &mut PgConnection,
    held: &Locked,
    addition: &Addition<'_>,
    neighbours: &[Task],
) -> sqlx::Result<Result<NewTask, String>> {
    let (tasks, _) = rows(&addition.graph, &addition.defaults);
    let Some(mut task) = tasks.into_iter().next() else {
        return Ok(Err("there is no task to add".to_owned()));
    };
    let taken = store::task::keys_beginning(conn, held.id, &task.key).await?;
    if addition.key_is_chosen && taken.contains(&task.key) {
        return Ok(Err(format!(
            "the feature `{}` has a task `{}` already; choose another key",
            held.name, task.key
        )));
    }
    let open = neighbours
        .iter()
        .filter(|one| addition.after.contains(&one.id) && !one.state.satisfies_dependents());
    let mut parent = neighbours.iter().filter(|one| addition.parent == Some(one.id));
    let parent_is_closed = parent.any(|parent| parent.open_blockers > 0);
    task.key = names::free_key(&task.key, &taken);
    task.id = addition.id;
    task.parent = addition.parent;
    task.open_blockers = i32::try_from(open.count()).unwrap_or(i32::MAX) + i32::from(parent_is_closed);
    Ok(Ok(task))
}

async fn refusal(
    conn: &mut PgConnection,
    feature: FeatureId,
    addition: &Addition<'_>,
    neighbours: &[Task],
) -> sqlx::Result<Option<String>> {
    for id in addition.after.iter().chain(&addition.parent) {
        match neighbours.iter().find(|task| task.id == *id) {
            None => return Ok(Some(format!("the task {id} was deleted meanwhile"))),
            Some(task) if task.feature != feature => {
                return Ok(Some(format!("the task {id} belongs to another feature")));
            }
            Some(_) => {}
        }
    }
    let Some(id) = addition.parent else {
        return Ok(None);
    };
    let Some(parent) = neighbours.iter().find(|task| task.id == id) else {
        return Ok(None);
    };
    if parent.role != SessionKind::Work {
        return Ok(Some(format!(
            "{id} is a step of the feature or changes its branches, so it has no parts; add the task without a parent, with \
             `--after` if it must wait for {id}"
        )));
    }
    let started = parent.children == 0 && parent.attempt > 0;
    if started || parent.held || !matches!(parent.state, TaskState::Pending | TaskState::Blocked) {
        let state = if parent.held {
            "held by a failed task above it"
        } else {
            parent.state.into_str()
        };
        let tried = if started { " and has already started" } else { "" };
        return Ok(Some(format!("can't add a part to {id}, which is {state}{tried}")));
    }
    let blockers: Vec<Uuid> = addition.after.iter().map(|task| task.0).collect();
    // A part cannot wait for a task that waits for the end of one of its ancestors.
    let mut above = store::task::dependencies::above(conn, id).await?;
    above.push(id.0);
    let ends: Vec<Moment> = above
        .into_iter()
        .map(|task| Moment { task, is_end: true })
        .collect();
    if store::task::waits::any_waits_for(conn, &blockers, &ends).await? {
        let words = cycle::describe(conn, id, &blockers, &ends.into_iter().collect()).await?;
        return Ok(Some(format!("{words}; the new task would be a part of {id}")));
    }
    Ok(None)
}
