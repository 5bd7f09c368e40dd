//! Results that a submission brings and that wait for a person's approval, like those of sessions (SPEC 2.1).

use std::collections::HashSet;

use ralph_shared::ids::TaskId;
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::states::TaskState;
use crate::domain::steps;
use crate::store;
use crate::store::feature::{Locked, Text};
use crate::store::task::NewTask;
use crate::{domain::run::defaults::TaskDefaults, flow::submit::step};

/// Given results that wait for approval.
#[derive(Debug, Clone, Default)]
pub struct ProvidedResults {
    /// The steps that would have written them.
    pub steps: Vec<SessionKind>,
    /// The text of a task graph that waits; it becomes tasks on approval.
    pub graph: Option<String>,
}

impl ProvidedResults {
    /// The tasks of these steps, which nobody works on.
    pub(in crate::flow) fn tasks(&self, description: &str, defaults: &TaskDefaults) -> Vec<NewTask> {
        let step = |role: &SessionKind| step(*role, 0, description, defaults);
        self.steps.iter().map(step).collect()
    }
}

/// Makes all tasks wait for `asked`, which a person must approve. Parents come before their children.
pub(in crate::flow) fn hold(asked: &[NewTask], tasks: &mut [NewTask], edges: &mut Vec<(TaskId, TaskId)>) {
    if asked.is_empty() {
        return;
    }
    let mut closed = HashSet::new();
    for task in tasks {
        let more = match task.parent {
            None if task.open_blockers == 0 => {
                edges.extend(asked.iter().map(|asked| (task.id, asked.id)));
                i32::try_from(asked.len()).unwrap_or(i32::MAX)
            }
            // A closed parent counts as one blocker of its children.
            Some(parent) => i32::from(closed.contains(&parent)),
            None => 0,
        };
        if more > 0 && task.open_blockers == 0 {
            closed.insert(task.id);
        }
        task.open_blockers += more;
    }
}

/// Sends newly inserted tasks to a person; the caller counts them as waiting for one.
pub(in crate::flow) async fn await_approval(
    conn: &mut PgConnection,
    held: &Locked,
    given: &ProvidedResults,
    tasks: &[NewTask],
) -> sqlx::Result<()> {
    if let Some(graph) = &given.graph {
        store::feature::write(conn, held.id, Text::ProposedGraph, Some(graph)).await?;
    }
    let ids: Vec<Uuid> = tasks.iter().map(|task| task.id.0).collect();
    store::queue::ready::withdraw(conn, &ids).await?;
    let mut locked = store::task::lock(conn, &ids).await?;
    for task in &mut locked {
        task.state = TaskState::NeedsReview;
    }
    store::task::save(conn, &locked.iter().collect::<Vec<_>>()).await?;
    for task in &locked {
        let reason = steps::waits_for_approval(task.role, &held.name, task.id);
        store::task::explain(conn, task.id, Some(&reason)).await?;
        store::notice::person_needed(conn, task.id, &reason).await?;
    }
    Ok(())
}
