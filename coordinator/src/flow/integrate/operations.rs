//! Branch operations that people or a feature's end ask for (DESIGN 6). They are visible tasks, which a
//! worker does without an agent unless something conflicts.

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{GitOperation, MergeHow};
use sqlx::{PgConnection, PgPool};

use crate::domain::ids::further;
use crate::domain::run::defaults::TaskDefaults;
use crate::domain::scheduling::concurrency::Concurrency;
use crate::domain::states::{FeatureState, TaskState};
use crate::flow::Signals;
use crate::flow::cascade::{self, Features};
use crate::prompt::{Templates, own_tasks};
use crate::store;
use crate::store::feature::Locked;
use crate::store::git::operation::{Branches, Landing, Progress};
use crate::store::task::{NewTask, Task};

/// Result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operated {
    /// These tasks do it, one after another.
    Accepted(Vec<TaskId>),
    /// Nothing has that id.
    NotFound,
    /// It is impossible at present, with the reason.
    Refused(String),
    /// Tasks of the feature are not done, and nobody confirmed that.
    Unfinished(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RevertRequest {
    /// Repeats the task afterwards instead of cancelling it.
    pub redo: bool,
    /// Also reverts landed dependents, the last one first.
    pub dependents: bool,
}

/// A feature locked by the transaction, with its progress.
struct LockedFeature {
    features: Features,
    branches: Branches,
}

/// Locks a feature whose branches may change.
async fn hold(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Result<LockedFeature, Operated>> {
    let features = cascade::lock_features(conn, &BTreeSet::from([feature])).await?;
    let Some(held) = features.get(&feature) else {
        return Ok(Err(Operated::NotFound));
    };
    if held.state == FeatureState::Cancelled {
        let why = format!("the feature `{}` is cancelled; submit a new one", held.name);
        return Ok(Err(Operated::Refused(why)));
    }
    let Some(branches) = store::git::operation::branches(conn, feature).await? else {
        let why = format!("the feature `{}` has no repository, or no tasks yet", held.name);
        return Ok(Err(Operated::Refused(why)));
    };
    Ok(Ok(LockedFeature { features, branches }))
}

/// Like [`hold`], but refuses if a task already does this operation.
async fn hold_for(
    conn: &mut PgConnection,
    feature: FeatureId,
    is_same: impl Fn(&GitOperation) -> bool,
) -> sqlx::Result<Result<LockedFeature, Operated>> {
    let held = match hold(conn, feature).await? {
        Ok(held) => held,
        Err(refused) => return Ok(Err(refused)),
    };
    let open = store::git::operation::open(conn, feature).await?;
    if let Some((task, _)) = open.iter().find(|(_, open)| is_same(open)) {
        return Ok(Err(Operated::Refused(does_that_already(*task))));
    }
    Ok(Ok(held))
}

/// Why a feature cannot be merged now: its merge task would wait for a later run that nobody starts for it.
fn merge_refusal(held: &Locked, progress: Progress) -> Option<String> {
    let name = &held.name;
    match held.state {
        FeatureState::Paused => Some(format!(
            "the feature `{name}` is paused; continue it with `feature resume {name}`, then try again"
        )),
        FeatureState::Running => None,
        _ if progress.open > 0 => Some(format!(
            "`{name}` has no run, and a run would also work on its {} open task(s): start one with `feature run {name}` and try \
             again, or skip or cancel those tasks first",
            progress.open
        )),
        _ => None,
    }
}

fn does_that_already(task: TaskId) -> String {
    format!("{task} does that already; `task show {task}` shows its progress")
}

/// The tasks that an earlier try of this request created, if any; `first` is the id of its first task.
pub async fn made_before(db: &PgPool, first: TaskId) -> sqlx::Result<Option<Vec<TaskId>>> {
    let mut conn = db.acquire().await?;
    let mut tasks = Vec::new();
    loop {
        let next = TaskId(further(first.0, tasks.len()));
        if store::task::feature_of(&mut conn, next).await?.is_none() {
            return Ok((!tasks.is_empty()).then_some(tasks));
        }
        tasks.push(next);
    }
}

/// Merges the feature's base into its branch; `id` is the id of the new task.
pub async fn update(
    db: &PgPool,
    templates: &Templates,
    feature: FeatureId,
    id: TaskId,
    actor: &str,
) -> sqlx::Result<(Operated, Signals)> {
    let mut tx = db.begin().await?;
    let is_same = |open: &GitOperation| matches!(open, GitOperation::Update { .. });
    let mut held = match hold_for(&mut tx, feature, is_same).await? {
        Ok(held) => held,
        Err(refused) => return Ok((refused, Signals::default())),
    };
    let branch = held.branches.base_ref.clone();
    let title = format!("Take in {branch}");
    let description = own_tasks::update(templates, &branch);
    let operation = GitOperation::Update { branch, brings: None };
    let task = task(&held.branches, 1, "update", title, description, operation);
    add(tx, feature, &mut held, id, vec![task], actor).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeRequest<'a> {
    pub how: MergeHow,
    /// Target branch; `None` for the feature's base.
    pub into: Option<&'a str>,
    /// Allows a merge while some tasks are not done.
    pub partial: bool,
}

/// Merges the feature's branch into its base or another branch; `id` is the id of the new task.
pub async fn merge(
    db: &PgPool,
    feature: FeatureId,
    id: TaskId,
    request: MergeRequest<'_>,
    actor: &str,
) -> sqlx::Result<(Operated, Signals)> {
    let MergeRequest { how, into, partial } = request;
    let mut tx = db.begin().await?;
    let base = store::git::operation::branches(&mut tx, feature).await?;
    let base = base.map_or_else(String::new, |branches| branches.base_ref);
    let wanted = into.map_or(base, str::to_owned);
    let is_same = |open: &GitOperation| match open {
        GitOperation::Merge {
            branch, how: as_that, ..
        } => *branch == wanted && *as_that == how,
        _ => false,
    };
    let mut held = match hold_for(&mut tx, feature, is_same).await? {
        Ok(held) => held,
        Err(refused) => return Ok((refused, Signals::default())),
    };
    let Some(head) = held.branches.last_landed.clone() else {
        let why = "nothing of this feature has landed yet".to_owned();
        return Ok((Operated::Refused(why), Signals::default()));
    };
    let progress = store::git::operation::progress(&mut tx, feature).await?;
    if let Some(why) = held
        .features
        .get(&feature)
        .and_then(|locked| merge_refusal(locked, progress))
    {
        return Ok((Operated::Refused(why), Signals::default()));
    }
    let Progress { open, stuck, total } = progress;
    if !partial && open + stuck > 0 {
        let why = format!(
            "{} of {total} tasks of the feature are not done; `--partial` (`partial` in the API) merges what has landed so far",
            open + stuck
        );
        return Ok((Operated::Unfinished(why), Signals::default()));
    }
    store::queue::concurrency_keys::declare(&mut tx, feature, [&turn(&held.branches, &wanted)].into_iter())
        .await?;
    let task = merging(&held.branches, wanted, how, head, false);
    add(tx, feature, &mut held, id, vec![task], actor).await
}

/// Reverts a landed task; the new tasks get the id `first` and the ids that follow from it.
pub async fn revert(
    db: &PgPool,
    templates: &Templates,
    id: TaskId,
    first: TaskId,
    request: RevertRequest,
    why: Option<&str>,
    actor: &str,
) -> sqlx::Result<(Operated, Signals)> {
    let refused = |why: String| Ok((Operated::Refused(why), Signals::default()));
    let mut tx = db.begin().await?;
    let Some(feature) = store::task::feature_of(&mut tx, id).await? else {
        return Ok((Operated::NotFound, Signals::default()));
    };
    let mut held = match hold(&mut tx, feature).await? {
        Ok(held) => held,
        Err(refused) => return Ok((refused, Signals::default())),
    };
    let Some(reverted) = store::task::lock(&mut tx, &[id.0]).await?.pop() else {
        return Ok((Operated::NotFound, Signals::default()));
    };
    let Some(landing) = store::git::operation::landing(&mut tx, id).await? else {
        return refused(format!(
            "{id} is {} and has not landed: there is nothing to revert",
            reverted.state.into_str()
        ));
    };
    if reverted.role == SessionKind::Git {
        return refused(format!("{id} only changed branches; revert the tasks themselves"));
    }
    if request.redo
        && let Some(why) = repeat_refusal(&mut tx, &reverted).await?
    {
        return refused(why);
    }
    let open = store::git::operation::open(&mut tx, feature).await?;
    if let Some(task) = reverts(&open, id) {
        return refused(does_that_already(task));
    }
    let mut landings = store::git::operation::landed_after(&mut tx, id).await?;
    if let Some(why) = dependents_refusal(id, &landings, &open, request.dependents) {
        return refused(why);
    }
    landings.push(landing);
    let tasks = reverting(templates, &held.branches, &landings, request.redo);
    if let Some(why) = why {
        store::dispatch::note_feedback(&mut tx, id, why).await?;
    }
    store::task::log(&mut tx, id, actor, "revert", why).await?;
    add(tx, feature, &mut held, first, tasks, actor).await
}

/// Why a reverted task can't be repeated.
async fn repeat_refusal(conn: &mut PgConnection, task: &Task) -> sqlx::Result<Option<String>> {
    let Some(parent) = task.parent else {
        return Ok(None);
    };
    let state = store::task::state_of(conn, parent).await?;
    Ok(state.filter(|state| state.is_resolved()).map(|state| {
        format!(
            "its parent {parent} is {} already, so {} can't be repeated; revert it without --redo",
            state.into_str(),
            task.id
        )
    }))
}

/// The open task that reverts `wanted`.
fn reverts(open: &[(TaskId, GitOperation)], wanted: TaskId) -> Option<TaskId> {
    let one = |open: &GitOperation| matches!(open, GitOperation::Revert { task, .. } if *task == wanted);
    open.iter().find(|(_, open)| one(open)).map(|(task, _)| *task)
}

/// Why a task can't be reverted with the landings that depend on it.
fn dependents_refusal(
    id: TaskId,
    landings: &[Landing],
    open: &[(TaskId, GitOperation)],
    with_dependents: bool,
) -> Option<String> {
    if !landings.is_empty() && !with_dependents {
        let names = landings.iter().map(|one| format!("{} {}", one.task, one.title));
        return Some(format!(
            "tasks that waited for {id} have landed: {}; --with-dependents reverts them as well",
            names.collect::<Vec<_>>().join(", ")
        ));
    }
    let mut already = landings.iter().map(|one| (one.task, reverts(open, one.task)));
    let (one, task) = already.find_map(|(one, task)| Some((one, task?)))?;
    Some(format!(
        "{task} already reverts {one}, which waited for {id}; wait for that, or `task cancel {task}` first"
    ))
}

/// Tasks that revert these landings, of which the last one was requested.
fn reverting(templates: &Templates, branches: &Branches, landings: &[Landing], redo: bool) -> Vec<NewTask> {
    let reverts = (1..).zip(landings).map(|(n, one)| {
        // Tasks are repeated only when everything is reverted.
        let is_last = landings.last().is_some_and(|last| last.task == one.task);
        let again = landings.iter().rev().map(|one| one.task);
        let title = format!("Revert: {}", one.title);
        let description = own_tasks::revert(templates, &one.task.to_string(), &one.title, &one.commit);
        let operation = GitOperation::Revert {
            task: one.task,
            commit: one.commit.clone(),
            redo: again.filter(|_| redo && is_last).collect(),
        };
        task(branches, n, "revert", title, description, operation)
    });
    reverts.collect()
}

pub(in crate::flow) struct DueMerge {
    pub how: MergeHow,
    branches: Branches,
    head: String,
}

/// The merge of a feature whose tasks are all resolved, if it was requested and something landed since the
/// last one.
pub(in crate::flow) async fn merge_due(
    conn: &mut PgConnection,
    held: &Locked,
) -> sqlx::Result<Option<DueMerge>> {
    if !held.has_repository {
        return Ok(None);
    }
    let Some(how) = store::git::operation::merge_of(conn, held.id).await? else {
        return Ok(None);
    };
    let Some(branches) = store::git::operation::branches(conn, held.id).await? else {
        return Ok(None);
    };
    let Some(head) = branches.last_landed.clone() else {
        return Ok(None);
    };
    if store::git::operation::is_merged(conn, held.id, &branches.base_ref, &head).await? {
        return Ok(None);
    }
    Ok(Some(DueMerge { how, branches, head }))
}

/// Adds and queues the due merge.
pub(in crate::flow) async fn finish(
    conn: &mut PgConnection,
    held: &mut Locked,
    due: DueMerge,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let DueMerge { how, branches, head } = due;
    let turn = turn(&branches, &branches.base_ref);
    store::queue::concurrency_keys::declare(conn, held.id, [&turn].into_iter()).await?;
    let task = merging(&branches, branches.base_ref.clone(), how, head, true);
    let id = task.id;
    store::task::insert(conn, held.id, &[task], &[]).await?;
    held.counts.add(TaskState::Pending, 1);
    signals.got_work(store::queue::ready::enqueue(conn, &[id.0], &[0]).await?);
    Ok(())
}

fn merging(branches: &Branches, branch: String, how: MergeHow, head: String, at_end: bool) -> NewTask {
    let title = match how {
        MergeHow::Command => "Hand the feature over".to_owned(),
        _ => format!("Merge into {branch}"),
    };
    let description = format!("Bring the feature's branch into `{branch}` ({how}).");
    let concurrency = Some(turn(branches, &branch).key);
    let operation = GitOperation::Merge {
        branch,
        how,
        head,
        at_end,
    };
    NewTask {
        concurrency,
        ..task(branches, 1, "merge", title, description, operation)
    }
}

/// Key that all merges into one branch of a repository share, so that they run one after another and each
/// gate sees the merges before it. No key of people's has a space.
fn turn(branches: &Branches, branch: &str) -> Concurrency {
    Concurrency {
        key: format!("merge into {branch} of {}", branches.repo_id),
        limit: 1,
    }
}

fn task(
    branches: &Branches,
    n: i64,
    key: &str,
    title: String,
    description: String,
    operation: GitOperation,
) -> NewTask {
    let defaults = TaskDefaults {
        pool: branches.pool.clone(),
        ..TaskDefaults::default()
    };
    NewTask {
        key: format!("{key}-{}", branches.operations + n),
        title,
        description,
        operation: Some(operation),
        ..NewTask::blank(SessionKind::Git, &defaults)
    }
}

/// Adds tasks to a locked feature, each after the one before; their ids follow from `first`.
async fn add(
    mut tx: sqlx::Transaction<'_, sqlx::Postgres>,
    feature: FeatureId,
    held: &mut LockedFeature,
    first: TaskId,
    mut tasks: Vec<NewTask>,
    actor: &str,
) -> sqlx::Result<(Operated, Signals)> {
    let mut signals = Signals::default();
    for (n, task) in tasks.iter_mut().enumerate() {
        task.id = TaskId(further(first.0, n));
    }
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    let edges: Vec<(TaskId, TaskId)> = ids.windows(2).map(|pair| (pair[1], pair[0])).collect();
    for task in tasks.iter_mut().skip(1) {
        task.open_blockers = 1;
    }
    store::task::insert(&mut tx, feature, &tasks, &edges).await?;
    let Some(locked) = held.features.get_mut(&feature) else {
        return Ok((Operated::NotFound, signals));
    };
    for task in &tasks {
        locked.counts.add(task.state(), 1);
    }
    if matches!(
        locked.state,
        FeatureState::Draft | FeatureState::Planned | FeatureState::Done | FeatureState::Failed
    ) {
        locked.state = FeatureState::Ready;
    }
    cascade::save_features(&mut tx, &held.features, &mut signals).await?;
    for id in &ids {
        store::task::log(&mut tx, *id, actor, "submit", None).await?;
    }
    if let Some(first) = ids.first() {
        signals.got_work(store::queue::ready::enqueue(&mut tx, &[first.0], &[0]).await?);
    }
    tx.commit().await?;
    Ok((Operated::Accepted(ids), signals))
}
