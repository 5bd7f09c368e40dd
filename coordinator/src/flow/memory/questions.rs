//! Memory queries of claims: one per dispatch and kind of entry, from its task and its context (SPEC 6.5).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use time::OffsetDateTime;

use super::recall::Question;
use crate::domain::recall::{HELD_OUT_COUNTED, Kind as EntryKind, Query, held_out_share};
use crate::flow::Settings;
use crate::flow::claim::opened::Opened;
use crate::flow::memory::embedding::Meaning;
use crate::flow::memory::select::{Selection, prompt_limit, select_entries};
use crate::store;
use crate::store::dispatch::context::TaskFacts;
use crate::store::dispatch::earlier::Earlier;
use crate::store::memory::index::Indexed;

/// Most paths of earlier attempts in a query.
const QUERY_PATHS: usize = 20;

/// Inputs for the queries of a batch of dispatches.
#[derive(Clone, Copy)]
pub(in crate::flow) struct Asking<'a> {
    pub settings: &'a Settings,
    pub working: &'a [&'a Opened],
    pub tasks: &'a [&'a TaskFacts],
    pub earlier: &'a [Earlier],
    pub fresh: &'a [Arc<Indexed>],
}

/// Memory of other tasks for one dispatch.
#[derive(Debug, Default)]
pub(in crate::flow) struct Recalled {
    pub repo_id: String,
    pub by_kind: BTreeMap<EntryKind, Selection>,
    pub held_out: bool,
    /// Whether this memory is switched off, so that nothing of it is shown.
    pub is_off: bool,
}

/// Queries the memory of other tasks for each working dispatch (SPEC 6.5).
pub(in crate::flow) async fn recall(
    conn: &mut PgConnection,
    asking: Asking<'_>,
) -> sqlx::Result<HashMap<DispatchId, Recalled>> {
    let Asking {
        settings,
        working,
        tasks,
        earlier,
        fresh,
    } = asking;
    let now = OffsetDateTime::now_utc();
    let tasks: HashMap<TaskId, &TaskFacts> = tasks.iter().map(|task| (task.task, *task)).collect();
    let mut questions = Vec::new();
    let mut asked = Vec::new();
    for dispatch in working {
        let Some(task) = tasks.get(&dispatch.task) else {
            continue;
        };
        let query = Query::new(&task.title, &task.description, &task_context(task, earlier));
        if query.is_empty() {
            continue;
        }
        for kind in &EntryKind::ALL {
            asked.push((*dispatch, *kind));
            questions.push(Question {
                repo_id: task.repo_id.clone(),
                kind: *kind,
                query: query.clone(),
                text: format!("{}\n{}", task.title, task.description),
                now,
            });
        }
    }
    let repos: BTreeSet<&str> = questions
        .iter()
        .map(|question| question.repo_id.as_str())
        .collect();
    let repos: Vec<String> = repos.into_iter().map(str::to_owned).collect();
    let standings = store::memory::worth::standings(conn, &repos, HELD_OUT_COUNTED).await?;
    let picked = select_entries(conn, Meaning::of_claim(settings), &questions, fresh, prompt_limit).await?;
    let mut recalled: HashMap<DispatchId, Recalled> = HashMap::new();
    for (((dispatch, kind), question), picked) in asked.into_iter().zip(questions).zip(picked) {
        let of_dispatch = recalled.entry(dispatch.dispatch).or_insert_with(|| {
            let standing = standings.get(&question.repo_id).copied().unwrap_or_default();
            let share = held_out_share(standing.held_out, settings.hold_out);
            Recalled {
                held_out: is_held_out(dispatch, share),
                is_off: standing.is_off,
                repo_id: question.repo_id,
                by_kind: BTreeMap::new(),
            }
        });
        settings.tail.note_entries(picked.entries);
        of_dispatch.by_kind.insert(kind, picked);
    }
    Ok(recalled)
}

/// The context of a task: its feature, its parent, and the failures and paths of its last attempts.
fn task_context(task: &TaskFacts, earlier: &[Earlier]) -> String {
    let mut text = task.feature_name.clone();
    if let Some(parent) = &task.parent {
        text = format!("{text} {}", parent.title);
    }
    for last in earlier.iter().rev().filter(|e| e.task == task.task).take(2) {
        if let Some(report) = &last.report {
            text = format!("{text} {} {}", report.category, report.why_failed);
        }
        for path in last.files_changed.iter().take(QUERY_PATHS) {
            text = format!("{text} {path}");
        }
    }
    text
}

/// Chooses first attempts of work only: a failed attempt without memory gets it on the retry. Uses the id's
/// random end, so that a repeated claim gets the same answer.
fn is_held_out(dispatch: &Opened, share: f64) -> bool {
    let end = u64::from_be_bytes(dispatch.dispatch.0.as_u64_pair().1.to_be_bytes()) & (u64::MAX >> 2);
    dispatch.attempt == 1
        && dispatch.kind == SessionKind::Work
        && (end as f64 / (u64::MAX >> 2) as f64) < share
}
