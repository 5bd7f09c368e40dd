//! Facts for the assignments of a batch of dispatches, read in a few queries for all of them.

use std::collections::{HashMap, HashSet};

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{Change, GitOperation, RepoScanOrder};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::run::{Run, RunSettings};
use crate::domain::states::Outcome;
use crate::flow::claim::opened::Opened;
use crate::flow::memory::context::Remembered;
use crate::flow::{
    Settings,
    memory::{distill, repo_scan},
};
use crate::prompt;
use crate::store;
use crate::store::dispatch::context::{ConflictFacts, Neighbour, Prerequisite, TaskFacts};
use crate::store::git::integration::Integration;
use crate::store::git::train::CarFacts;

/// Neighbours of each kind that are read.
const NEIGHBOURS: i64 = 6;
/// Most landed tasks that a merge's message names.
const LANDED_TITLES: i64 = 200;

pub(super) struct Facts {
    pub tasks: HashMap<TaskId, TaskFacts>,
    pub runs: HashMap<Uuid, Run>,
    pub prerequisites: Vec<Prerequisite>,
    /// The last conflicts of tasks whose work starts with one in its tree.
    pub conflicts: HashMap<TaskId, ConflictFacts>,
    /// Changes to verify.
    pub changes: HashMap<TaskId, Change>,
    /// People's feedback, by task.
    pub feedback: HashMap<TaskId, String>,
    /// Suspicions about attempts to verify.
    pub doubts: HashMap<TaskId, String>,
    pub memory: Remembered,
    /// Learnings for tasks with the role `distill`.
    pub merging: HashMap<TaskId, distill::Order>,
    /// Survey orders for sessions that start from the head of their feature's branch, by feature.
    pub repo_scans: HashMap<Uuid, RepoScanOrder>,
    pub integrations: HashMap<TaskId, Integration>,
    /// Facts about trees that may land, by the landing task.
    pub known: HashMap<TaskId, CarFacts>,
    pub operations: HashMap<TaskId, GitOperation>,
    /// Features whose gate is known to fail on their base.
    pub gate_fails: HashSet<FeatureId>,
    /// Changes of attempts to verify in a folder.
    pub dir_changed: HashMap<TaskId, Vec<String>>,
    /// Titles of landed tasks, for features to merge, and for reviews.
    pub landed: HashMap<FeatureId, Vec<String>>,
    pub neighbours: Vec<Neighbour>,
    /// Earlier refusals of tasks to verify.
    pub verdicts: HashMap<TaskId, Vec<prompt::Verdict>>,
}

/// An opened dispatch with its facts.
#[derive(Clone, Copy)]
pub(super) struct DispatchContext<'a> {
    pub facts: &'a Facts,
    pub settings: &'a Settings,
    pub task: &'a TaskFacts,
    pub run: &'a Run,
    pub dispatch: &'a Opened,
}

impl Facts {
    /// `None` when its task is gone.
    pub(super) fn of<'a>(
        &'a self,
        settings: &'a Settings,
        dispatch: &'a Opened,
    ) -> Option<DispatchContext<'a>> {
        Some(DispatchContext {
            facts: self,
            settings,
            task: self.tasks.get(&dispatch.task)?,
            run: self.runs.get(&dispatch.run.0)?,
            dispatch,
        })
    }

    pub(super) async fn read(
        conn: &mut PgConnection,
        settings: &Settings,
        opened: &[Opened],
    ) -> sqlx::Result<Self> {
        // Only dispatches with an agent need prompt facts.
        let with_agent = tasks_of(opened, SessionKind::has_agent);
        let verifying = tasks_of(opened, |kind| kind == SessionKind::Verify);
        let working = tasks_of(opened, |kind| kind == SessionKind::Work);
        let integrating = tasks_of(opened, |kind| {
            matches!(kind, SessionKind::Integrate | SessionKind::Check)
        });
        let run_ids: Vec<Uuid> = opened.iter().map(|d| d.run.0).collect();
        let mut tasks = store::dispatch::context::tasks(conn, &tasks_of(opened, |_| true)).await?;
        let runs = store::run::read(conn, &run_ids).await?;
        let prerequisites = store::dispatch::context::prerequisites(conn, &with_agent).await?;
        let conflicts = conflicts(conn, &tasks, &with_agent).await?;
        let memory = if settings.memory {
            Remembered::read(conn, settings, opened, &tasks, &prerequisites).await?
        } else {
            Remembered::default()
        };
        let integrations = store::git::integration::open_of_tasks(conn, &integrating).await?;
        inherit_conflicts(conn, &mut tasks, &integrating).await?;
        let operations = store::git::operation::of_tasks(conn, &operating(&tasks)).await?;
        let with_runs = with_runs(opened, &tasks, &runs);
        Ok(Self {
            prerequisites,
            conflicts,
            changes: store::dispatch::context::changes(conn, &verifying).await?,
            feedback: feedback(conn, settings, &with_agent, &verifying).await?,
            doubts: store::dispatch::doubts(conn, &verifying)
                .await?
                .into_iter()
                .collect(),
            memory,
            merging: distill::merging(conn, opened).await?,
            repo_scans: repo_scan::orders(conn, settings, &tasks).await?,
            known: known(conn, &with_runs, &integrations, &operations).await?,
            gate_fails: gate_fails(conn, opened, &with_runs).await?,
            dir_changed: dir_changed(conn, &tasks, &verifying).await?,
            landed: landed(conn, &tasks, &with_agent, &operations).await?,
            neighbours: neighbours(conn, &tasks, &working).await?,
            verdicts: verdicts(conn, &verifying).await?,
            integrations: integrations.into_iter().map(|i| (i.task, i)).collect(),
            operations,
            tasks: tasks.into_iter().map(|t| (t.task, t)).collect(),
            runs: runs.into_iter().map(|r| (r.id.0, r)).collect(),
        })
    }
}

/// The tasks of dispatches of some kinds.
fn tasks_of(opened: &[Opened], is_wanted: impl Fn(SessionKind) -> bool) -> Vec<Uuid> {
    let wanted = opened.iter().filter(|d| is_wanted(d.kind));
    wanted.map(|d| d.task.0).collect()
}

fn with_runs<'a>(
    opened: &[Opened],
    tasks: &'a [TaskFacts],
    runs: &'a [Run],
) -> Vec<(&'a TaskFacts, &'a Run)> {
    let with_run = tasks.iter().filter_map(|task| {
        let run = opened.iter().find(|d| d.task == task.task)?.run;
        Some((task, runs.iter().find(|one| one.id == run)?))
    });
    with_run.collect()
}

async fn conflicts(
    conn: &mut PgConnection,
    tasks: &[TaskFacts],
    with_agent: &[Uuid],
) -> sqlx::Result<HashMap<TaskId, ConflictFacts>> {
    let conflicted = tasks
        .iter()
        .filter(|task| task.conflicted && task.start_commit.is_some() && with_agent.contains(&task.task.0));
    let conflicted: Vec<Uuid> = conflicted.map(|task| task.task.0).collect();
    if conflicted.is_empty() {
        return Ok(HashMap::new());
    }
    let mut conflicts = store::dispatch::context::conflicts(conn, &conflicted).await?;
    // Once an attempt continued from the conflict, its work holds both sides.
    conflicts.retain(|conflict| {
        let mut tasks = tasks.iter();
        tasks.any(|t| t.task == conflict.task && t.start_commit.as_ref() == Some(&conflict.commit))
    });
    Ok(conflicts.into_iter().map(|c| (c.task, c)).collect())
}

/// A split task with a conflict in its tree passes the conflict on to its parts.
async fn inherit_conflicts(
    conn: &mut PgConnection,
    tasks: &mut [TaskFacts],
    integrating: &[Uuid],
) -> sqlx::Result<()> {
    let parts = tasks
        .iter()
        .filter(|task| task.parent.is_some() && !task.conflicted && integrating.contains(&task.task.0));
    let parts: Vec<Uuid> = parts.map(|task| task.task.0).collect();
    if parts.is_empty() {
        return Ok(());
    }
    let above = store::dispatch::context::conflicted_above(conn, &parts).await?;
    for task in tasks {
        task.conflicted |= above.contains(&task.task);
    }
    Ok(())
}

/// People's feedback on tasks to verify. Without a memory, on all tasks.
async fn feedback(
    conn: &mut PgConnection,
    settings: &Settings,
    with_agent: &[Uuid],
    verifying: &[Uuid],
) -> sqlx::Result<HashMap<TaskId, String>> {
    let of_verified = store::dispatch::feedback_of(conn, verifying).await?;
    let mut feedback: HashMap<TaskId, String> = of_verified.into_iter().collect();
    if !settings.memory {
        // Feedback is not memory.
        for (task, words) in store::dispatch::last_feedback(conn, with_agent).await? {
            feedback.entry(task).or_insert(words);
        }
    }
    Ok(feedback)
}

fn operating(tasks: &[TaskFacts]) -> Vec<Uuid> {
    let operating = tasks
        .iter()
        .filter(|task| matches!(task.role, SessionKind::Git | SessionKind::Check));
    operating.map(|task| task.task.0).collect()
}

/// Facts about the trees of cars, and about trees that an operation may push.
async fn known(
    conn: &mut PgConnection,
    with_runs: &[(&TaskFacts, &Run)],
    integrations: &[Integration],
    operations: &HashMap<TaskId, GitOperation>,
) -> sqlx::Result<HashMap<TaskId, CarFacts>> {
    let mut known: HashMap<TaskId, CarFacts> = HashMap::new();
    for (task, run) in with_runs {
        let RunSettings { gate, landing, .. } = &run.settings;
        if let Some(of_car) = integrations.iter().find(|one| one.task == task.task) {
            let of_car = store::git::train::known(conn, of_car.id, &task.repo_id, gate, *landing).await?;
            known.insert(task.task, of_car);
        }
        let operation = operations.get(&task.task);
        if operation.is_some_and(|operation| !matches!(operation, GitOperation::Check { .. })) {
            let passed = store::git::train::passed(conn, &task.repo_id, gate, false).await?;
            known.entry(task.task).or_default().passed = passed;
        }
    }
    Ok(known)
}

async fn gate_fails(
    conn: &mut PgConnection,
    opened: &[Opened],
    with_runs: &[(&TaskFacts, &Run)],
) -> sqlx::Result<HashSet<FeatureId>> {
    let gated = tasks_of(opened, |kind| {
        matches!(kind, SessionKind::Work | SessionKind::Verify)
    });
    let of_gated = with_runs.iter().filter(|(task, run)| {
        task.repo_address.is_some() && !run.settings.gate.is_empty() && gated.contains(&task.task.0)
    });
    let of_gated: Vec<Uuid> = of_gated.map(|(task, _)| task.feature.0).collect();
    match of_gated[..] {
        [] => Ok(HashSet::new()),
        _ => store::git::gate::fails(conn, &of_gated).await,
    }
}

async fn dir_changed(
    conn: &mut PgConnection,
    tasks: &[TaskFacts],
    verifying: &[Uuid],
) -> sqlx::Result<HashMap<TaskId, Vec<String>>> {
    let judged = tasks
        .iter()
        .filter(|task| task.dir.is_some() && verifying.contains(&task.task.0));
    let judged: Vec<Uuid> = judged.map(|task| task.task.0).collect();
    if judged.is_empty() {
        return Ok(HashMap::new());
    }
    let changes = store::dispatch::context::last_changes(conn, &judged).await?;
    Ok(changes.into_iter().collect())
}

async fn landed(
    conn: &mut PgConnection,
    tasks: &[TaskFacts],
    with_agent: &[Uuid],
    operations: &HashMap<TaskId, GitOperation>,
) -> sqlx::Result<HashMap<FeatureId, Vec<String>>> {
    let mut landed = HashMap::new();
    for task in tasks {
        let is_review = task.role == SessionKind::Review && with_agent.contains(&task.task.0);
        if is_review || matches!(operations.get(&task.task), Some(GitOperation::Merge { .. })) {
            let titles = store::git::operation::landed_titles(conn, task.feature, LANDED_TITLES).await?;
            landed.insert(task.feature, titles);
        }
    }
    Ok(landed)
}

async fn neighbours(
    conn: &mut PgConnection,
    tasks: &[TaskFacts],
    working: &[Uuid],
) -> sqlx::Result<Vec<Neighbour>> {
    if working.is_empty() {
        return Ok(Vec::new());
    }
    let of_working = tasks.iter().filter(|task| working.contains(&task.task.0));
    let features: HashSet<Uuid> = of_working.map(|task| task.feature.0).collect();
    let features: Vec<Uuid> = features.into_iter().collect();
    store::dispatch::context::neighbours(conn, &features, working, NEIGHBOURS).await
}

/// Why verifiers and the gate refused earlier attempts, oldest first.
async fn verdicts(
    conn: &mut PgConnection,
    verifying: &[Uuid],
) -> sqlx::Result<HashMap<TaskId, Vec<prompt::Verdict>>> {
    let mut verdicts: HashMap<TaskId, Vec<prompt::Verdict>> = HashMap::new();
    if verifying.is_empty() {
        return Ok(verdicts);
    }
    for one in store::dispatch::earlier::earlier(conn, verifying).await? {
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
    Ok(verdicts)
}
