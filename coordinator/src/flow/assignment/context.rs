//! The assignment of a dispatch: workspace, limits, model, and the prompt with the present memory (DESIGN
//! 1.3).
//!
//! It is built outside of the claim's transaction for a whole batch. A second transaction stores the prompts,
//! so that they can be explained later.

use std::collections::{BTreeMap, HashMap, HashSet};

use ralph_shared::attempts;
use ralph_shared::ids::DispatchId;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{Assignment, SessionOrder, Text, Work};
use sqlx::{PgConnection, PgPool};

use super::facts::{DispatchContext, Facts};
use crate::flow::Settings;
use crate::flow::assignment::prompt_log::SentPrompts;
use crate::flow::claim::opened::Opened;
use crate::flow::memory::layout::PromptMemory;
use crate::prompt;
use crate::store;
use crate::store::dispatch::context::{ConflictFacts, TaskFacts};

/// Longer texts travel in parts (DESIGN 3), so that a prompt and its references fit one message. Bytes.
const INLINE_PROMPT_BYTES: usize = 100 * 1024;

/// Neighbours in a prompt.
const NEIGHBOURS_SHOWN: usize = 10;

/// Builds the assignments of opened dispatches. Omits dispatches whose task is gone.
pub async fn build(
    db: &PgPool,
    settings: &Settings,
    opened: &[Opened],
) -> sqlx::Result<(HashMap<DispatchId, Assignment>, SentPrompts)> {
    let mut sent = SentPrompts::default();
    let mut assignments = HashMap::new();
    if opened.is_empty() {
        return Ok((assignments, sent));
    }
    let mut conn = db.acquire().await?;
    let facts = Facts::read(&mut conn, settings, opened).await?;
    for dispatch in opened {
        let Some(context) = facts.of(settings, dispatch) else {
            continue;
        };
        if let Some(work) = context.work(&mut conn, &mut sent).await? {
            assignments.insert(dispatch.dispatch, context.assignment(work));
        }
    }
    Ok((assignments, sent))
}

impl DispatchContext<'_> {
    /// `None` when the attempt to land or the branch operation is gone.
    async fn work(&self, conn: &mut PgConnection, sent: &mut SentPrompts) -> sqlx::Result<Option<Work>> {
        let kind = self.dispatch.kind;
        if lands(self.task, kind) {
            let integration = self.facts.integrations.get(&self.dispatch.task);
            return Ok(integration.map(|integration| Work::Integrate(self.integrate_order(integration))));
        }
        if matches!(kind, SessionKind::Git | SessionKind::Check) {
            let operation = self.facts.operations.get(&self.dispatch.task);
            return Ok(operation.map(|operation| Work::Git(self.operation_order(operation))));
        }
        let (rendered, prompt_memory) = self.render();
        let merging = self.facts.merging.get(&self.dispatch.task);
        sent.note(self.dispatch, &rendered, prompt_memory, merging);
        let text = parted(conn, rendered.prompt.whole(), Some(self.dispatch.dispatch)).await?;
        let mut context = BTreeMap::new();
        for (name, text) in prompt::overlong(&self.task_context(), &self.settings.budgets) {
            context.insert(name.to_owned(), parted(conn, text.to_owned(), None).await?);
        }
        Ok(Some(Work::Session(SessionOrder {
            context,
            ..self.session_order(text)
        })))
    }

    fn render(&self) -> (prompt::Rendered, Option<PromptMemory>) {
        let Self { facts, task, run, .. } = *self;
        let (settings, dispatch) = (self.settings, self.dispatch);
        let mut context = self.task_context();
        if !dispatch.kind.changes_files() {
            context.conflict = None;
        }
        if !settings.memory && dispatch.kind != SessionKind::Verify {
            context.feedback = facts.feedback.get(&task.task).cloned();
        }
        let (prompt_memory, judged) = if dispatch.kind == SessionKind::Verify {
            let judged = prompt::Judged {
                attempt: dispatch.attempt,
                change: facts.changes.get(&task.task).cloned(),
                feedback: facts.feedback.get(&task.task).cloned(),
                doubt: facts.doubts.get(&task.task).cloned(),
                verdicts: facts.verdicts.get(&task.task).cloned().unwrap_or_default(),
            };
            (None, Some(judged))
        } else if dispatch.kind == SessionKind::Distill {
            (None, None)
        } else {
            (Some(facts.memory.of(task, run, dispatch)), None)
        };
        let memory = prompt_memory
            .as_ref()
            .map(|prompt_memory| &prompt_memory.memory)
            .filter(|_| settings.memory);
        let rendered = prompt::render(
            &settings.templates,
            &settings.budgets,
            dispatch.kind,
            &context,
            memory,
            judged.as_ref(),
        );
        (rendered, prompt_memory)
    }

    fn task_context(&self) -> prompt::TaskContext {
        let Self { facts, task, run, .. } = *self;
        let (prerequisites, more_prerequisites) = self.prerequisites();
        prompt::TaskContext {
            id: task.task.to_string(),
            title: task.title.clone(),
            description: task.description.clone(),
            parent: task.parent.as_ref().map(|parent| prompt::Parent {
                id: parent.id.to_string(),
                title: parent.title.clone(),
                description: parent.description.clone(),
            }),
            prerequisites,
            more_prerequisites,
            conflict: facts.conflicts.get(&task.task).map(conflict),
            feature: task.feature_name.clone(),
            // A step's own description is the feature's; show it once.
            feature_description: if task.description == task.feature_description {
                String::new()
            } else {
                task.feature_description.clone()
            },
            spec: task.spec.clone(),
            plan: task.plan.clone(),
            base: task.base_commit.clone(),
            merging: facts.merging.get(&task.task).map(|order| order.merging.clone()),
            dir: task.dir.clone(),
            dir_changed: facts.dir_changed.get(&task.task).cloned().unwrap_or_default(),
            feedback: None,
            gate: match task.repo_address {
                Some(_) => run.settings.gate.clone(),
                None => Vec::new(),
            },
            gate_fails: facts.gate_fails.contains(&task.feature),
            is_verified: task.verify,
            branch: task.branch.clone().filter(|_| task.repo_address.is_some()),
            holds: task.start_ref.as_deref().and_then(parse_attempt_ref),
            neighbours: self.neighbours(),
            landed: facts.landed.get(&task.feature).cloned().unwrap_or_default(),
        }
    }

    /// The prerequisites for the prompt, and the number of the others.
    fn prerequisites(&self) -> (Vec<prompt::Prerequisite>, usize) {
        let shown = self
            .facts
            .prerequisites
            .iter()
            .filter(|blocker| blocker.of == self.task.task);
        let in_all = shown
            .clone()
            .next()
            .map_or(0, |blocker| usize::try_from(blocker.in_all).unwrap_or(0));
        let shown: Vec<_> = shown
            .map(|blocker| prompt::Prerequisite {
                id: blocker.id.to_string(),
                title: blocker.title.clone(),
                skipped: blocker.skipped,
                summary: blocker.summary.clone(),
            })
            .collect();
        let more = in_all.saturating_sub(shown.len());
        (shown, more)
    }

    /// The tasks beside a task: those that wait for it, then those under way, then those that come next.
    fn neighbours(&self) -> Vec<prompt::Neighbour> {
        let Self { facts, task, .. } = *self;
        let mut seen = HashSet::from([task.task]);
        seen.extend(task.parent.as_ref().map(|parent| parent.id));
        let beside = facts.neighbours.iter().filter(|other| match other.waits_for {
            Some(waits_for) => waits_for == task.task.0,
            None => other.feature == task.feature.0,
        });
        let mut kept = Vec::new();
        for other in beside
            .filter(|other| seen.insert(other.id))
            .take(NEIGHBOURS_SHOWN)
        {
            kept.push(prompt::Neighbour {
                id: other.id.to_string(),
                title: other.title.clone(),
                relation: match (other.waits_for, other.is_running) {
                    (Some(_), _) => prompt::Relation::Dependent,
                    (None, true) => prompt::Relation::Running,
                    (None, false) => prompt::Relation::Waiting,
                },
                paths: other.paths.clone(),
            });
        }
        kept
    }
}

/// Whether a dispatch lands an attempt, or tries the gate on it ahead of its turn.
fn lands(task: &TaskFacts, kind: SessionKind) -> bool {
    kind == SessionKind::Integrate || (kind == SessionKind::Check && task.role != SessionKind::Check)
}

/// A text for a message: long texts go in parts, which name the dispatch of the prompt.
async fn parted(conn: &mut PgConnection, text: String, prompt_of: Option<DispatchId>) -> sqlx::Result<Text> {
    if text.len() <= INLINE_PROMPT_BYTES {
        return Ok(Text::Inline(text));
    }
    Ok(Text::Parts {
        sha256: store::blob::put_text(conn, &text, prompt_of).await?,
        size_bytes: text.len() as u64,
    })
}

/// The prompt of a dispatch that need not exist, with the memory entries of other tasks in it.
pub(in crate::flow) async fn render_one(
    conn: &mut PgConnection,
    settings: &Settings,
    opened: &Opened,
) -> sqlx::Result<Option<(prompt::Rendered, Vec<store::memory::exposures::Use>)>> {
    let facts = Facts::read(conn, settings, std::slice::from_ref(opened)).await?;
    let Some(context) = facts.of(settings, opened) else {
        return Ok(None);
    };
    let (rendered, prompt_memory) = context.render();
    let uses = prompt_memory
        .map(|prompt_memory| prompt_memory.uses(&rendered))
        .unwrap_or_default();
    Ok(Some((rendered, uses)))
}

fn conflict(conflict: &ConflictFacts) -> prompt::Conflict {
    let others = conflict.others.iter().map(|other| prompt::OtherSide {
        id: other.id.to_string(),
        title: other.title.clone(),
        description: other.description.clone(),
        summary: other.journal.clone(),
    });
    prompt::Conflict {
        paths: conflict.paths.clone(),
        others: others.collect(),
    }
}

/// Parses an attempt's ref, `…/FEATURE/TASK/ATTEMPT-DISPATCH`, into its task and attempt.
fn parse_attempt_ref(start: &str) -> Option<prompt::HeldWork> {
    let mut parts = attempts::below(start)?.split('/').skip(1);
    let (task, last) = (parts.next()?, parts.next()?);
    let (attempt, _) = last.split_once('-')?;
    Some(prompt::HeldWork {
        task: task.to_owned(),
        attempt: attempt.to_owned(),
    })
}
