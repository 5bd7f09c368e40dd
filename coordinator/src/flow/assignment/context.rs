//! The assignment of a dispatch: workspace, limits, model, and the prompt with the present memory (DESIGN
//! 1.3).
//!
//! It is built outside of the claim's transaction for a whole batch. A second transaction stores the prompts,
//! so that they can be explained later.

use std::collections::{BTreeMap, HashMap, HashSet};

use ralph_shared::attempts;
use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{
    Assignment, Change, GitOperation, RepoScanOrder, SessionOrder, Text, Work, sha256_hex,
};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::domain::run::{Run, RunSettings};
use crate::domain::states::Outcome;
use crate::flow::assignment::instructions::{assignment, integrate_order, operation_order, session_order};
use crate::flow::assignment::prompt_log::SentPrompts;
use crate::flow::claim::opened::Opened;
use crate::flow::memory::context::Remembered;
use crate::flow::memory::layout::PromptMemory;
use crate::flow::{
    Settings,
    memory::{distill, repo_scan},
};
use crate::prompt;
use crate::store;
use crate::store::dispatch::context::{ConflictFacts, Neighbour, Prerequisite, TaskFacts};
use crate::store::dispatch::earlier::Earlier;
use crate::store::git::integration::Integration;
use crate::store::git::train::CarFacts;

/// Longer texts travel in parts (DESIGN 3), so that a prompt and its references fit one message. Bytes.
const INLINE_PROMPT_BYTES: usize = 100 * 1024;

/// Neighbours of each kind that are read, and those in a prompt.
const NEIGHBOURS: i64 = 6;
const NEIGHBOURS_SHOWN: usize = 10;
/// Most landed tasks that a merge's message names.
const LANDED_TITLES: i64 = 200;

/// All facts of a batch.
pub(in crate::flow) struct Facts {
    tasks: HashMap<TaskId, TaskFacts>,
    runs: HashMap<Uuid, Run>,
    prerequisites: Vec<Prerequisite>,
    /// The last conflicts of tasks whose work starts with one in its tree.
    pub(in crate::flow) conflicts: HashMap<TaskId, ConflictFacts>,
    /// What is to be verified.
    changes: HashMap<TaskId, Change>,
    /// What people said of it.
    said: HashMap<TaskId, String>,
    /// Suspicions about attempts to verify.
    doubts: HashMap<TaskId, String>,
    memory: Remembered,
    /// Learnings for tasks with the role `distill`.
    merging: HashMap<TaskId, distill::Order>,
    /// Survey orders for sessions that start from the head of their feature's branch, by feature.
    pub(in crate::flow) repo_scans: HashMap<Uuid, RepoScanOrder>,
    pub(in crate::flow) integrations: HashMap<TaskId, Integration>,
    /// What is known of trees that may land, by the task that lands.
    pub(in crate::flow) known: HashMap<TaskId, CarFacts>,
    pub(in crate::flow) operations: HashMap<TaskId, GitOperation>,
    /// Features whose gate is known to fail on their base.
    gate_fails: HashSet<FeatureId>,
    /// Changes of attempts to verify in a folder.
    dir_changed: HashMap<TaskId, Vec<String>>,
    /// Titles of landed tasks, for features to merge, and for reviews.
    pub(in crate::flow) landed: HashMap<FeatureId, Vec<String>>,
    neighbours: Vec<Neighbour>,
    /// Earlier refusals of tasks to verify.
    verdicts: HashMap<TaskId, Vec<prompt::Verdict>>,
}

/// Builds the assignments of opened dispatches. Omits dispatches whose task is gone.
pub async fn build(
    db: &PgPool,
    settings: &Settings,
    opened: &[Opened],
) -> sqlx::Result<(HashMap<DispatchId, Assignment>, SentPrompts)> {
    let mut sent = SentPrompts::default();
    if opened.is_empty() {
        return Ok((HashMap::new(), sent));
    }
    let mut conn = db.acquire().await?;
    let facts = read(&mut conn, settings, opened).await?;
    let mut assignments = HashMap::new();
    let mut frames: HashMap<String, String> = HashMap::new();
    for dispatch in opened {
        let Some(task) = facts.tasks.get(&dispatch.task) else {
            continue;
        };
        let Some(run) = facts.runs.get(&dispatch.run.0) else {
            continue;
        };
        let is_car = lands(task, dispatch.kind);
        let work = if matches!(dispatch.kind, SessionKind::Git | SessionKind::Check) && !is_car {
            let Some(operation) = facts.operations.get(&dispatch.task) else {
                continue;
            };
            Work::Git(operation_order(&facts, task, run, operation))
        } else if is_car {
            let Some(integration) = facts.integrations.get(&dispatch.task) else {
                continue;
            };
            let operation = facts.operations.get(&dispatch.task);
            let known = facts.known.get(&dispatch.task).cloned().unwrap_or_default();
            Work::Integrate(integrate_order(
                task,
                run,
                dispatch,
                integration,
                operation,
                known,
            ))
        } else {
            let (rendered, laid) = render(&facts, task, run, dispatch, settings);
            if let Some(laid) = laid {
                sent.uses.extend(laid.uses(&rendered));
                sent.trials.extend(laid.trial());
            }
            let merging = facts.merging.get(&dispatch.task);
            sent.uses.extend(
                merging
                    .into_iter()
                    .flat_map(|order| order.uses(dispatch.dispatch)),
            );
            let prompt = &rendered.prompt;
            let frame = match frames.get(&prompt.frame) {
                Some(hash) => String::clone(hash),
                None => {
                    let hash = sha256_hex(prompt.frame.as_bytes());
                    frames.insert(prompt.frame.clone(), hash.clone());
                    hash
                }
            };
            if let Some(row) = dispatch.prompts {
                let body = store::dispatch::prompt::StoredPrompt {
                    frame: frame.clone(),
                    body: prompt.body.clone(),
                    sections: sections(&rendered.account),
                };
                sent.prompts
                    .entry(row)
                    .or_default()
                    .insert(dispatch.dispatch.0, body);
            }
            let text = parted(&mut conn, prompt.whole(), Some(dispatch.dispatch)).await?;
            let mut context = BTreeMap::new();
            for (name, text) in prompt::overlong(&task_context(&facts, task, run), &settings.budgets) {
                context.insert(name.to_owned(), parted(&mut conn, text.to_owned(), None).await?);
            }
            Work::Session(SessionOrder {
                context,
                ..session_order(&facts, settings, task, run, dispatch, text)
            })
        };
        let start = match (&work, facts.integrations.get(&dispatch.task)) {
            (Work::Integrate(_), Some(i)) => Some((i.source_commit.clone(), i.source_ref.clone())),
            _ => task.start_commit.clone().zip(task.start_ref.clone()),
        };
        assignments.insert(
            dispatch.dispatch,
            assignment(&facts, settings, task, run, dispatch, work, start),
        );
    }
    sent.frames = frames.into_iter().map(|(frame, hash)| (hash, frame)).collect();
    Ok((assignments, sent))
}

/// Whether a dispatch lands an attempt, or tries the gate on it ahead of its turn.
fn lands(task: &TaskFacts, kind: SessionKind) -> bool {
    kind == SessionKind::Integrate || (kind == SessionKind::Check && task.role != SessionKind::Check)
}

/// The account of a prompt's sections, for storage.
pub fn sections(account: &[prompt::SectionAccount]) -> Vec<store::dispatch::prompt::SentSection> {
    let kept = account.iter().map(|one| store::dispatch::prompt::SentSection {
        name: one.section.as_str().to_owned(),
        status: one.fate.as_str().to_owned(),
        chars: one.chars,
        allowed: one.allowed,
    });
    kept.collect()
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
    let facts = read(conn, settings, std::slice::from_ref(opened)).await?;
    let (Some(task), Some(run)) = (facts.tasks.get(&opened.task), facts.runs.get(&opened.run.0)) else {
        return Ok(None);
    };
    let (rendered, laid) = render(&facts, task, run, opened, settings);
    let uses = laid.map(|laid| laid.uses(&rendered)).unwrap_or_default();
    Ok(Some((rendered, uses)))
}

async fn read(conn: &mut PgConnection, settings: &Settings, opened: &[Opened]) -> sqlx::Result<Facts> {
    let ids: Vec<Uuid> = opened.iter().map(|d| d.task.0).collect();
    let run_ids: Vec<Uuid> = opened.iter().map(|d| d.run.0).collect();
    // Only dispatches with an agent need prompt facts.
    let told: Vec<Uuid> = opened
        .iter()
        .filter(|d| d.kind.has_agent())
        .map(|d| d.task.0)
        .collect();
    let mut tasks = store::dispatch::context::tasks(conn, &ids).await?;
    let runs = store::run::read(conn, &run_ids).await?;
    let prerequisites = if told.is_empty() {
        Vec::new()
    } else {
        store::dispatch::context::prerequisites(conn, &told).await?
    };
    let conflicted: Vec<Uuid> = tasks
        .iter()
        .filter(|task| task.conflicted && task.start_commit.is_some() && told.contains(&task.task.0))
        .map(|task| task.task.0)
        .collect();
    let mut conflicts = if conflicted.is_empty() {
        Vec::new()
    } else {
        store::dispatch::context::conflicts(conn, &conflicted).await?
    };
    // Once an attempt continued from the conflict, its work holds both sides.
    conflicts.retain(|conflict| {
        let mut tasks = tasks.iter();
        tasks.any(|t| t.task == conflict.task && t.start_commit.as_ref() == Some(&conflict.commit))
    });
    let verifying: Vec<Uuid> = opened
        .iter()
        .filter(|d| d.kind == SessionKind::Verify)
        .map(|d| d.task.0)
        .collect();
    let (mut changes, mut said, mut doubts) = (HashMap::new(), HashMap::new(), HashMap::new());
    if !verifying.is_empty() {
        changes = store::dispatch::context::changes(conn, &verifying).await?;
        said.extend(store::dispatch::feedback_of(conn, &verifying).await?);
        doubts.extend(store::dispatch::doubts(conn, &verifying).await?);
    }
    if !settings.memory && !told.is_empty() {
        // What people say is no memory.
        for (task, words) in store::dispatch::last_feedback(conn, &told).await? {
            said.entry(task).or_insert(words);
        }
    }
    let memory = if settings.memory {
        Remembered::read(conn, settings, opened, &tasks, &prerequisites).await?
    } else {
        Remembered::default()
    };
    let integrating: Vec<Uuid> = opened
        .iter()
        .filter(|d| matches!(d.kind, SessionKind::Integrate | SessionKind::Check))
        .map(|d| d.task.0)
        .collect();
    let integrations = if integrating.is_empty() {
        Vec::new()
    } else {
        store::git::integration::open_of_tasks(conn, &integrating).await?
    };
    let parts: Vec<Uuid> = tasks
        .iter()
        .filter(|task| task.parent.is_some() && !task.conflicted && integrating.contains(&task.task.0))
        .map(|task| task.task.0)
        .collect();
    if !parts.is_empty() {
        // A split task with a conflict in its tree left the conflict to its parts.
        let above = store::dispatch::context::conflicted_above(conn, &parts).await?;
        for task in &mut tasks {
            task.conflicted |= above.contains(&task.task);
        }
    }
    let mut known: HashMap<TaskId, CarFacts> = HashMap::new();
    for integration in &integrations {
        let task = tasks.iter().find(|task| task.task == integration.task);
        let run = opened.iter().find(|d| d.task == integration.task).map(|d| d.run);
        let run = runs.iter().find(|one| Some(one.id) == run);
        if let (Some(task), Some(run)) = (task, run) {
            let RunSettings { gate, landing, .. } = &run.settings;
            let of_car =
                store::git::train::known(conn, integration.id, &task.repo_id, gate, *landing).await?;
            known.insert(integration.task, of_car);
        }
    }
    let merging = distill::merging(conn, opened).await?;
    let surveys = repo_scan::orders(conn, settings, &tasks).await?;
    let operating: Vec<Uuid> = tasks
        .iter()
        .filter(|task| matches!(task.role, SessionKind::Git | SessionKind::Check))
        .map(|task| task.task.0)
        .collect();
    let operations = if operating.is_empty() {
        HashMap::new()
    } else {
        store::git::operation::of_tasks(conn, &operating).await?
    };
    let pushing = |task: &&TaskFacts| {
        let operation = operations.get(&task.task);
        operation.is_some_and(|operation| !matches!(operation, GitOperation::Check { .. }))
    };
    for task in tasks.iter().filter(pushing) {
        let of_task = opened.iter().find(|d| d.task == task.task).map(|d| d.run);
        if let Some(run) = runs.iter().find(|run| Some(run.id) == of_task) {
            let passed = store::git::train::passed(conn, &task.repo_id, &run.settings.gate, false).await?;
            known.entry(task.task).or_default().passed = passed;
        }
    }
    let judged: Vec<Uuid> = opened
        .iter()
        .filter(|d| {
            d.kind == SessionKind::Verify && tasks.iter().any(|t| t.task == d.task && t.dir.is_some())
        })
        .map(|d| d.task.0)
        .collect();
    let dir_changed = if judged.is_empty() {
        HashMap::new()
    } else {
        let changes = store::dispatch::context::last_changes(conn, &judged).await?;
        changes.into_iter().collect()
    };
    let mut landed = HashMap::new();
    for task in &tasks {
        let is_review = task.role == SessionKind::Review && told.contains(&task.task.0);
        if is_review || matches!(operations.get(&task.task), Some(GitOperation::Merge { .. })) {
            let titles = store::git::operation::landed_titles(conn, task.feature, LANDED_TITLES).await?;
            landed.insert(task.feature, titles);
        }
    }
    let working = opened.iter().filter(|d| d.kind == SessionKind::Work);
    let working: Vec<Uuid> = working.map(|d| d.task.0).collect();
    let neighbours = if working.is_empty() {
        Vec::new()
    } else {
        let of_working = tasks.iter().filter(|task| working.contains(&task.task.0));
        let features: HashSet<Uuid> = of_working.map(|task| task.feature.0).collect();
        let features: Vec<Uuid> = features.into_iter().collect();
        store::dispatch::context::neighbours(conn, &features, &working, NEIGHBOURS).await?
    };
    let verdicts = if verifying.is_empty() {
        HashMap::new()
    } else {
        verdicts(store::dispatch::earlier::earlier(conn, &verifying).await?)
    };
    let gated = opened
        .iter()
        .filter(|d| matches!(d.kind, SessionKind::Work | SessionKind::Verify));
    let is_gated = |d: &&Opened| {
        runs.iter()
            .any(|run| run.id == d.run && !run.settings.gate.is_empty())
    };
    let gated: HashSet<TaskId> = gated.filter(is_gated).map(|d| d.task).collect();
    let of_gated = tasks
        .iter()
        .filter(|task| gated.contains(&task.task) && task.repo_address.is_some());
    let of_gated: Vec<Uuid> = of_gated.map(|task| task.feature.0).collect();
    let gate_fails = match of_gated[..] {
        [] => HashSet::new(),
        _ => store::git::gate::fails(conn, &of_gated).await?,
    };
    Ok(Facts {
        known,
        operations,
        gate_fails,
        dir_changed,
        landed,
        neighbours,
        verdicts,
        tasks: tasks.into_iter().map(|t| (t.task, t)).collect(),
        runs: runs.into_iter().map(|r| (r.id.0, r)).collect(),
        prerequisites,
        merging,
        repo_scans: surveys,
        conflicts: conflicts.into_iter().map(|c| (c.task, c)).collect(),
        changes,
        said,
        doubts,
        memory,
        integrations: integrations.into_iter().map(|i| (i.task, i)).collect(),
    })
}

fn render(
    facts: &Facts,
    task: &TaskFacts,
    run: &Run,
    dispatch: &Opened,
    settings: &Settings,
) -> (prompt::Rendered, Option<PromptMemory>) {
    let mut context = task_context(facts, task, run);
    if !dispatch.kind.changes_files() {
        context.conflict = None;
    }
    if !settings.memory && dispatch.kind != SessionKind::Verify {
        context.feedback = facts.said.get(&task.task).cloned();
    }
    let (laid, judged) = if dispatch.kind == SessionKind::Verify {
        let judged = prompt::Judged {
            attempt: dispatch.attempt,
            change: facts.changes.get(&task.task).cloned(),
            feedback: facts.said.get(&task.task).cloned(),
            doubt: facts.doubts.get(&task.task).cloned(),
            verdicts: facts.verdicts.get(&task.task).cloned().unwrap_or_default(),
        };
        (None, Some(judged))
    } else if dispatch.kind == SessionKind::Distill {
        (None, None)
    } else {
        (Some(facts.memory.of(task, run, dispatch)), None)
    };
    let memory = laid.as_ref().map(|laid| &laid.memory).filter(|_| settings.memory);
    let rendered = prompt::render(
        &settings.templates,
        &settings.budgets,
        dispatch.kind,
        &context,
        memory,
        judged.as_ref(),
    );
    (rendered, laid)
}

fn task_context(facts: &Facts, task: &TaskFacts, run: &Run) -> prompt::TaskContext {
    prompt::TaskContext {
        id: task.task.to_string(),
        title: task.title.clone(),
        description: task.description.clone(),
        parent: task.parent.as_ref().map(|parent| prompt::Parent {
            id: parent.id.to_string(),
            title: parent.title.clone(),
            description: parent.description.clone(),
        }),
        prerequisites: facts
            .prerequisites
            .iter()
            .filter(|blocker| blocker.of == task.task)
            .map(|blocker| prompt::Prerequisite {
                id: blocker.id.to_string(),
                title: blocker.title.clone(),
                skipped: blocker.skipped,
                summary: blocker.summary.clone(),
            })
            .collect(),
        more_prerequisites: facts
            .prerequisites
            .iter()
            .find(|blocker| blocker.of == task.task)
            .map_or(0, |blocker| {
                let told = facts.prerequisites.iter().filter(|other| other.of == task.task);
                usize::try_from(blocker.in_all)
                    .unwrap_or(0)
                    .saturating_sub(told.count())
            }),
        conflict: facts.conflicts.get(&task.task).map(|conflict| prompt::Conflict {
            paths: conflict.paths.clone(),
            others: conflict
                .others
                .iter()
                .map(|other| prompt::OtherSide {
                    id: other.id.to_string(),
                    title: other.title.clone(),
                    description: other.description.clone(),
                    summary: other.journal.clone(),
                })
                .collect(),
        }),
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
        neighbours: neighbours(facts, task),
        landed: facts.landed.get(&task.feature).cloned().unwrap_or_default(),
    }
}

/// The tasks beside a task: those that wait for it, then those under way, then those that come next.
fn neighbours(facts: &Facts, task: &TaskFacts) -> Vec<prompt::Neighbour> {
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

/// Why verifiers and the gate refused earlier attempts, oldest first.
fn verdicts(earlier: Vec<Earlier>) -> HashMap<TaskId, Vec<prompt::Verdict>> {
    let mut verdicts: HashMap<TaskId, Vec<prompt::Verdict>> = HashMap::new();
    for one in earlier {
        let is_verdict = matches!(one.kind, SessionKind::Verify | SessionKind::Integrate);
        if let Some(reason) = one
            .reason
            .filter(|_| is_verdict && one.outcome == Outcome::Failed)
        {
            verdicts.entry(one.task).or_default().push(prompt::Verdict {
                attempt: one.attempt,
                by_gate: one.kind == SessionKind::Integrate,
                reason,
            });
        }
    }
    verdicts
}
