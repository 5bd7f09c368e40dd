//! Stores a checked graph as rows in one transaction (SPEC 2.1, 2.6).

pub mod add_task;
pub mod agent_graph;
pub mod copy;
pub mod hook;
pub mod provided;
pub mod schedule;

use std::collections::BTreeSet;

use ralph_shared::at_length::by_length;
use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use serde::Serialize;
use serde_json::Value;
use sqlx::{PgConnection, PgPool};

use super::{Signals, finish};
use crate::domain::budget::levels::{Level, Limit};
use crate::domain::graph::Graph;
use crate::domain::names;
use crate::domain::run::RunSettings;
use crate::domain::run::defaults::TaskDefaults;
use crate::domain::states::{FeatureState, TaskState};
use crate::domain::status::suggestion::{self, FeatureVerb};
use crate::domain::steps::{self, Provided};
use crate::flow::integrate::base_gate;
use crate::store;
use crate::store::feature::{Locked, NewFeature};
use crate::store::task::NewTask;

#[derive(Debug, Clone)]
pub struct Submission {
    pub feature: NewFeature,
    /// Tasks of the feature. Without any, the missing steps become tasks (SPEC 2.1).
    pub graph: Graph,
    /// Values of fields that a task omits.
    pub defaults: TaskDefaults,
    /// Limits of the feature, of each of its tasks and of each of its sessions.
    pub limits: Vec<(Level, Limit)>,
    pub start: Start,
}

/// When the first run of a feature starts.
#[derive(Debug, Clone)]
pub enum Start {
    /// At once, with these limits and choices.
    Now(RunSettings),
    /// On request; these settings apply unless the request changes them.
    Later(RunSettings),
}

#[derive(Debug, Clone)]
pub enum Submitted {
    Accepted {
        /// The run, if one was started.
        run: Option<RunId>,
        tasks: usize,
        /// The ids of the tasks, in the graph's order.
        ids: Vec<TaskId>,
    },
    /// The repository has a feature of that name.
    NameTaken,
    /// Another feature of the repository lands on this branch, or on one that git cannot keep beside it. The
    /// text names it and a remedy.
    BranchTaken(String),
}

/// Stores a submission and starts its run. Work may start at once; answer the submitter after a
/// [`store::flush`].
pub async fn submit(db: &PgPool, submission: &Submission) -> sqlx::Result<(Submitted, Signals)> {
    submit_given(db, submission, &provided::ProvidedResults::default()).await
}

/// Like [`submit`], for a feature with given results that wait for approval.
pub async fn submit_given(
    db: &PgPool,
    submission: &Submission,
    given: &provided::ProvidedResults,
) -> sqlx::Result<(Submitted, Signals)> {
    let mut signals = Signals::default();
    let mut tx = store::begin_unflushed(db).await?;
    let submitted = within(&mut tx, submission, given, &mut signals).await?;
    tx.commit().await?;
    Ok((submitted, signals))
}

/// Like [`submit_given`], within a transaction.
pub(super) async fn within(
    tx: &mut PgConnection,
    submission: &Submission,
    waiting: &provided::ProvidedResults,
    signals: &mut Signals,
) -> sqlx::Result<Submitted> {
    let new = &submission.feature;
    if let Some(branch) = &new.branch
        && let Some(owned) = store::feature::branch::owner(tx, &new.repo_id, branch, &new.name).await?
    {
        let why = names::branch_taken(branch, &owned.branch, &owned.feature);
        return Ok(Submitted::BranchTaken(why));
    }
    let feature = new.id;
    // Older than the tasks that follow, since the newest task decides a feature's condition.
    let asked = waiting.tasks(&new.description, &submission.defaults);
    let (mut tasks, edges, steps) = planned(submission, waiting, &asked);
    let mut held = locked(new, &tasks, steps, asked.len());
    tasks.extend(asked.iter().cloned());
    let begun = match &submission.start {
        Start::Now(settings) if may_start(&held) => Some(settings),
        Start::Now(_) | Start::Later(_) => None,
    };
    if begun.is_some() {
        held.begin(RunId::new());
    }
    if !store::feature::insert(tx, new, &held, begun).await? {
        return Ok(Submitted::NameTaken);
    }
    store::feature::priority::set(tx, feature, &new.precedence).await?;
    store::budget::give(tx, feature, &submission.limits).await?;
    store::queue::concurrency_keys::declare(tx, feature, submission.graph.keys()).await?;
    signals.got_work(store::task::insert_begun(tx, feature, &tasks, &edges, begun).await?);
    if !asked.is_empty() {
        provided::await_approval(tx, &held, waiting, &asked).await?;
    }
    if let Some(settings) = begun {
        ensure_gate(tx, &mut held, settings, signals).await?;
    }
    signals.features.insert(feature);
    if let (None, Start::Now(settings) | Start::Later(settings)) = (begun, &submission.start) {
        let draft = [value(settings)?, value(&submission.defaults)?];
        store::feature::keep_draft(tx, feature, &draft[0], &draft[1]).await?;
    }
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    Ok(Submitted::Accepted {
        run: held.current_run,
        tasks: tasks.len(),
        ids,
    })
}

/// Tasks that a feature begins with, their edges, and the steps among them that write missing texts.
fn planned(
    submission: &Submission,
    waiting: &provided::ProvidedResults,
    asked: &[NewTask],
) -> (Vec<NewTask>, Vec<(TaskId, TaskId)>, &'static [SessionKind]) {
    let (texts, defaults) = (&submission.feature, &submission.defaults);
    let bytes = submission.graph.nodes.len() * size_of::<NewTask>();
    let (mut tasks, mut edges) = by_length(bytes, || rows(&submission.graph, defaults));
    let given = Provided::new(
        &texts.description,
        texts.spec.as_deref(),
        texts.plan.as_deref(),
        tasks.len() + usize::from(waiting.graph.is_some()),
    );
    let steps = steps::missing(given).unwrap_or_default();
    chain(steps, &texts.description, defaults, &mut tasks, &mut edges);
    provided::hold(asked, &mut tasks, &mut edges);
    (tasks, edges, steps)
}

/// State and counts of a feature before its run starts. `asked` results wait for approval.
fn locked(new: &NewFeature, tasks: &[NewTask], steps: &[SessionKind], asked: usize) -> Locked {
    let mut held = Locked::inserted(new);
    for task in tasks {
        held.counts.add(task.state(), 1);
    }
    held.counts
        .add(TaskState::NeedsReview, i32::try_from(asked).unwrap_or(i32::MAX));
    held.state = match steps {
        _ if tasks.len() + asked == 0 => FeatureState::Draft,
        [] => FeatureState::Ready,
        [SessionKind::Build] => FeatureState::Planned,
        _ => FeatureState::Draft,
    };
    held
}

async fn ensure_gate(
    tx: &mut PgConnection,
    held: &mut Locked,
    settings: &RunSettings,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let before = held.counts;
    base_gate::ensure(tx, held, settings, base_gate::GateCause::Changed, signals).await?;
    if held.counts != before {
        store::feature::save(tx, std::iter::once(&*held)).await?;
    }
    Ok(())
}

/// The stored form of a value.
pub(super) fn value(of: &impl Serialize) -> sqlx::Result<Value> {
    serde_json::to_value(of).map_err(|error| sqlx::Error::Encode(error.into()))
}

pub async fn first_run(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<RunSettings>> {
    let (run, _) = store::feature::draft(conn, feature).await?;
    Ok(run.and_then(|run| serde_json::from_value(run).ok()))
}

/// Starts a run of a feature, whether the caller holds its row or not. `None` when its state does not allow
/// it.
pub async fn start(
    conn: &mut PgConnection,
    feature: FeatureId,
    run: RunId,
    settings: &RunSettings,
    signals: &mut Signals,
) -> sqlx::Result<Option<RunId>> {
    let mut features = super::cascade::lock_features(conn, &BTreeSet::from([feature])).await?;
    let Some(held) = features.get_mut(&feature) else {
        return Ok(None);
    };
    if held.counts.total() == 0 {
        add_steps(conn, held).await?;
    }
    if !may_start(held) {
        return Ok(None);
    }
    begin(conn, held, (run, None), settings, signals).await?;
    super::cascade::save_features(conn, &features, signals).await?;
    super::integrate::promote(conn, &BTreeSet::from([feature]), signals).await?;
    finish::check(conn, &mut features, signals).await?;
    super::cascade::save_features(conn, &features, signals).await?;
    Ok(Some(run))
}

/// Starts a run in which sessions write the tasks of a feature without tasks. The inner error says why it
/// cannot.
pub async fn build(
    conn: &mut PgConnection,
    feature: FeatureId,
    run: RunId,
    settings: &RunSettings,
    signals: &mut Signals,
) -> sqlx::Result<Result<RunId, String>> {
    let mut features = super::cascade::lock_features(conn, &BTreeSet::from([feature])).await?;
    let Some(held) = features.get_mut(&feature) else {
        return Ok(Err("the feature was deleted meanwhile".to_owned()));
    };
    let has_tasks = match store::feature::step(conn, feature, SessionKind::Build).await? {
        Some(step) => match store::task::state_of(conn, step).await? {
            Some(state @ (TaskState::Skipped | TaskState::Cancelled)) => {
                return Ok(Err(format!(
                    "the step {step} that makes the tasks of `{}` is {}; `task retry {step}` makes them",
                    held.name,
                    state.into_str()
                )));
            }
            state => state.is_none_or(TaskState::is_resolved),
        },
        None => held.counts.total() > 0,
    };
    if has_tasks {
        return Ok(Err(format!(
            "`{0}` has its tasks already; add others with `task create TITLE --feature {0}`",
            held.name
        )));
    }
    let (name, state) = (held.name.clone(), held.state);
    Ok(start(conn, feature, run, settings, signals)
        .await?
        .ok_or_else(|| suggestion::of_feature(FeatureVerb::Build, state, &name)))
}

/// Starts a run that reviews a feature whose tasks are over, regardless of its rounds. The inner error says
/// why it cannot.
pub async fn review_now(
    conn: &mut PgConnection,
    feature: FeatureId,
    run: RunId,
    settings: &RunSettings,
    signals: &mut Signals,
) -> sqlx::Result<Result<RunId, String>> {
    let mut features = super::cascade::lock_features(conn, &BTreeSet::from([feature])).await?;
    let Some(held) = features.get_mut(&feature) else {
        return Ok(Err("the feature was deleted meanwhile".to_owned()));
    };
    if !matches!(held.state, FeatureState::Ready | FeatureState::Done) {
        let why = suggestion::of_feature(FeatureVerb::Review, held.state, &held.name);
        return Ok(Err(why));
    }
    let left =
        held.counts.open() + held.counts.of(TaskState::NeedsReview) + held.counts.of(TaskState::Failed);
    if left > 0 {
        let name = &held.name;
        let why = match left {
            1 => format!("1 task of `{name}` is not over; `feature run {name}` continues with it"),
            _ => format!("{left} tasks of `{name}` are not over; `feature run {name}` continues with them"),
        };
        return Ok(Err(why));
    }
    let Some(newest) = store::feature::newest_task(conn, feature).await? else {
        let why = format!(
            "`{0}` has no tasks that could be reviewed; `task create TITLE --feature {0}` adds one",
            held.name
        );
        return Ok(Err(why));
    };
    add_review(conn, held, newest).await?;
    held.state = FeatureState::Ready;
    begin(conn, held, (run, None), settings, signals).await?;
    super::cascade::save_features(conn, &features, signals).await?;
    Ok(Ok(run))
}

pub(super) fn may_start(held: &Locked) -> bool {
    match held.state {
        FeatureState::Ready | FeatureState::Planned | FeatureState::Failed => true,
        FeatureState::Draft => held.counts.total() > 0,
        _ => false,
    }
}

/// Opens a run of a held feature, or of one task of it, and queues ready tasks. The caller writes the feature
/// back.
pub(super) async fn begin(
    conn: &mut PgConnection,
    held: &mut Locked,
    (run, only): (RunId, Option<TaskId>),
    settings: &RunSettings,
    signals: &mut Signals,
) -> sqlx::Result<RunId> {
    store::run::insert(conn, run, held.id, settings, only).await?;
    held.begin(run);
    base_gate::ensure(conn, held, settings, base_gate::GateCause::Again, signals).await?;
    signals.got_work(store::queue::ready::enqueue_feature(conn, held.id, Some(run)).await?);
    Ok(run)
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
                paths: node.paths.clone(),
                concurrency: node.concurrency.as_ref().map(|of| of.key.clone()),
                not_before: node.not_before,
                open_blockers: i32::try_from(node.open_blockers).unwrap_or(i32::MAX),
                children: i32::try_from(node.open_children).unwrap_or(i32::MAX),
                start_commit: None,
                start_ref: None,
                role: SessionKind::Work,
                operation: None,
            }
        })
        .collect();
    (tasks, edges)
}

/// A step's task; `round` counts reviews.
pub(super) fn step(role: SessionKind, round: i64, description: &str, defaults: &TaskDefaults) -> NewTask {
    let (key, title) = steps::name(role, round);
    NewTask {
        key,
        title,
        description: description.to_owned(),
        ..NewTask::blank(role, defaults)
    }
}

/// Adds the steps, each after the one before.
fn chain(
    steps: &[SessionKind],
    description: &str,
    defaults: &TaskDefaults,
    tasks: &mut Vec<NewTask>,
    edges: &mut Vec<(TaskId, TaskId)>,
) {
    let mut before = None;
    for &role in steps {
        let mut task = step(role, 0, description, defaults);
        if let Some(before) = before.replace(task.id) {
            edges.push((task.id, before));
            task.open_blockers = 1;
        }
        tasks.push(task);
    }
}

/// Adds the missing steps of a feature without tasks, given its present texts.
async fn add_steps(conn: &mut PgConnection, held: &mut store::feature::Locked) -> sqlx::Result<()> {
    let texts = store::feature::texts(conn, held.id).await?.unwrap_or_default();
    let given = Provided::new(
        &texts.description,
        texts.spec.as_deref(),
        texts.plan.as_deref(),
        0,
    );
    let (mut tasks, mut edges) = (Vec::new(), Vec::new());
    let steps = steps::missing(given).unwrap_or_default();
    let (_, defaults) = store::feature::draft(conn, held.id).await?;
    let defaults: Option<TaskDefaults> = defaults.and_then(|defaults| serde_json::from_value(defaults).ok());
    let defaults = defaults.unwrap_or_default();
    chain(steps, &texts.description, &defaults, &mut tasks, &mut edges);
    store::task::insert(conn, held.id, &tasks, &edges).await?;
    for task in &tasks {
        held.counts.add(task.state(), 1);
    }
    Ok(())
}

/// Whether a feature has, or had, tasks besides steps. A feature without given tasks ends without them when
/// its steps were cancelled or skipped.
pub(super) async fn has_work(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<bool> {
    let newest = store::feature::newest_task(conn, feature).await?;
    Ok(newest.is_none_or(|newest| {
        matches!(
            newest.role,
            SessionKind::Work | SessionKind::Review | SessionKind::Distill | SessionKind::Git
        )
    }))
}

/// The newest task of a feature whose tasks are all resolved, if a review is due: rounds are left, and work
/// was done that the last review did not see.
pub(super) async fn review_due(
    conn: &mut PgConnection,
    held: &Locked,
) -> sqlx::Result<Option<store::feature::Newest>> {
    let newest = match held.review_rounds {
        0 => None,
        _ => store::feature::newest_task(conn, held.id).await?,
    };
    let Some(newest) = newest.filter(|newest| newest.reviews < i64::from(held.review_rounds)) else {
        return Ok(None);
    };
    let is_due = store::feature::done_since_review(conn, held.id).await?;
    Ok(is_due.then_some(newest))
}

/// Adds and queues the due review.
pub(super) async fn review(
    conn: &mut PgConnection,
    held: &mut Locked,
    newest: store::feature::Newest,
    signals: &mut Signals,
) -> sqlx::Result<()> {
    let task = add_review(conn, held, newest).await?;
    signals.got_work(store::queue::ready::enqueue(conn, &[task.0], &[0]).await?);
    Ok(())
}

/// Adds the next review of a feature, with the permissions of its newest task.
async fn add_review(
    conn: &mut PgConnection,
    held: &mut Locked,
    newest: store::feature::Newest,
) -> sqlx::Result<TaskId> {
    let defaults = TaskDefaults {
        max_retries: newest.max_retries,
        verify: newest.verify,
        pool: newest.pool,
    };
    let texts = store::feature::texts(conn, held.id).await?.unwrap_or_default();
    let task = step(
        SessionKind::Review,
        newest.reviews + 1,
        &texts.description,
        &defaults,
    );
    store::task::insert(conn, held.id, std::slice::from_ref(&task), &[]).await?;
    held.counts.add(TaskState::Pending, 1);
    Ok(task.id)
}
