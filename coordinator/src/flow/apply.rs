//! Reports change tasks: in batches, one transaction each (DESIGN 2).
//!
//! A report is accepted while its dispatch is the task's current one, also after its lease ended; what comes later is
//! stored as superseded, and only its usage counts. A batch that fails is tried one report at a time, and what fails alone
//! is kept raw and ends its attempt as an error: one poisoned report never stops the others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use ralph_shared::ids::{DispatchId, FeatureId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{self, Difficulty, Sigils};
use ralph_shared::wire::{Ended, Finished, IntegrationEnd, IntegrationReport, Report, SessionReport};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::capture::{self, Captured};
use super::cascade::{self, Features};
use super::{Settings, Signals, finish, integrate};
use crate::domain::judge::{self, AttemptFacts, Judgement, Step};
use crate::domain::retry::{self, Next, Trouble};
use crate::domain::run::{Run, Spent};
use crate::domain::states::{Kind, Outcome, TaskState, Verification};
use crate::store;
use crate::store::dispatch::{Dispatch, DispatchState, End};
use crate::store::integration::{Integration, IntegrationState};
use crate::store::memory::Source;
use crate::store::task::Task;

/// A report with its text in hand.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The report.
    pub report: Report,
    /// The agent's whole message text.
    pub text: String,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It changed its task, now or when it came before.
    Applied,
    /// The fence had moved: stored, nothing else.
    Superseded,
    /// Its dispatch is not known here.
    Unknown,
    /// It could not be applied even alone; kept raw, its attempt ended as an error.
    Poisoned,
}

/// Applies reports. Returns each one's fate, in order, and what others want to know.
///
/// # Errors
/// When the database can't be reached: nothing is known to have changed, and the reports come again.
pub async fn apply(
    db: &PgPool,
    settings: &Settings,
    batch: &[Incoming],
) -> sqlx::Result<(Vec<Fate>, Signals)> {
    match store::retry_serialization(|| in_one_transaction(db, settings, batch)).await {
        Ok(applied) => Ok(applied),
        Err(error) if is_unreachable(&error) => Err(error),
        Err(error) if batch.len() > 1 => {
            tracing::warn!(%error, reports = batch.len(), "batch of reports failed; applying them one by one");
            let mut fates = Vec::with_capacity(batch.len());
            let mut signals = Signals::default();
            for one in batch {
                let (fate, more) = Box::pin(apply(db, settings, std::slice::from_ref(one))).await?;
                fates.extend(fate);
                signals.merge(more);
            }
            Ok((fates, signals))
        }
        Err(error) => {
            let Some(poisoned) = batch.first() else {
                return Ok((Vec::new(), Signals::default()));
            };
            let signals = set_aside(db, settings, poisoned, &error).await?;
            Ok((vec![Fate::Poisoned], signals))
        }
    }
}

fn is_unreachable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => true,
        // Class 57: the server shuts down or starts; 08: the connection broke; 53: out of connections, memory or disk.
        sqlx::Error::Database(e) => e.code().is_some_and(|code| {
            ["57", "08", "53", "40"]
                .iter()
                .any(|class| code.starts_with(class))
        }),
        _ => false,
    }
}

/// Keeps a report raw that can't be applied, and ends its attempt with an error that says so.
async fn set_aside(
    db: &PgPool,
    settings: &Settings,
    poisoned: &Incoming,
    cause: &sqlx::Error,
) -> sqlx::Result<Signals> {
    let dispatch = poisoned.report.dispatch;
    tracing::error!(%cause, %dispatch, "report could not be applied; kept in bad_reports");
    let body = serde_json::to_vec(&poisoned.report).unwrap_or_default();
    let mut conn = db.acquire().await?;
    store::blob::keep_bad_report(&mut conn, Some(dispatch.0), &cause.to_string(), &body).await?;
    drop(conn);
    let message = format!("its report could not be applied: {cause}");
    let finished = match &poisoned.report.finished {
        Finished::Session(_) => Finished::Session(Box::new(SessionReport {
            ended: Ended::Protocol { message },
            text: Default::default(),
            text_truncated: false,
            usage: Default::default(),
            tool_calls: 0,
            agent: Default::default(),
            snapshot: Default::default(),
            attempted: Vec::new(),
            last_tool_error: None,
            stderr_tail: String::new(),
        })),
        Finished::Integration(_) => Finished::Integration(IntegrationReport {
            end: IntegrationEnd::Failed { message, retry: true },
        }),
    };
    let plain = Incoming {
        report: Report {
            finished,
            ..poisoned.report.clone()
        },
        text: String::new(),
    };
    Ok(in_one_transaction(db, settings, &[plain]).await?.1)
}

/// Everything that a batch changes, collected before it is written.
struct Batch<'a> {
    settings: &'a Settings,
    features: Features,
    runs: HashMap<RunId, Run>,
    tasks: HashMap<TaskId, Task>,
    integrations: HashMap<TaskId, Integration>,
    changed: HashSet<TaskId>,
    ends: Vec<End>,
    spent: BTreeMap<RunId, Spent>,
    captured: Captured,
    enqueue: Vec<(TaskId, Duration)>,
    withdraw: Vec<Uuid>,
    landed: Vec<TaskId>,
    queued: Vec<(TaskId, i32, String, String)>,
    closed: Vec<(TaskId, IntegrationState, Option<String>, bool, Option<String>)>,
    requeued: Vec<(TaskId, String)>,
    explained: Vec<(TaskId, Option<String>)>,
    split: Vec<(TaskId, String, Sigils)>,
    next_models: Vec<(TaskId, String)>,
    failed_runs: BTreeSet<FeatureId>,
    turns: BTreeSet<FeatureId>,
}

async fn in_one_transaction(
    db: &PgPool,
    settings: &Settings,
    incoming: &[Incoming],
) -> sqlx::Result<(Vec<Fate>, Signals)> {
    let mut signals = Signals::default();
    let mut tx = db.begin().await?;
    let ids: Vec<Uuid> = incoming.iter().map(|one| one.report.dispatch.0).collect();
    let named = store::dispatch::read(&mut tx, &ids).await?;
    let features: BTreeSet<FeatureId> = named.iter().map(|d| d.feature).collect();
    let features = cascade::lock_features(&mut tx, &features).await?;
    let task_ids: Vec<Uuid> = named.iter().map(|d| d.task.0).collect();
    let tasks = store::task::lock(&mut tx, &task_ids).await?;
    let mut dispatches: HashMap<DispatchId, Dispatch> = store::dispatch::lock(&mut tx, &ids)
        .await?
        .into_iter()
        .map(|d| (d.id, d))
        .collect();
    let run_ids: Vec<Uuid> = named.iter().map(|d| d.run.0).collect();
    let runs = store::run::read(&mut tx, &run_ids).await?;
    let integrating: Vec<Uuid> = named
        .iter()
        .filter(|d| d.kind == Kind::Integrate)
        .map(|d| d.task.0)
        .collect();
    let integrations = if integrating.is_empty() {
        Vec::new()
    } else {
        store::integration::open_of_tasks(&mut tx, &integrating).await?
    };
    let mut batch = Batch {
        settings,
        features,
        runs: runs.into_iter().map(|run| (run.id, run)).collect(),
        tasks: tasks.into_iter().map(|task| (task.id, task)).collect(),
        integrations: integrations.into_iter().map(|i| (i.task, i)).collect(),
        changed: HashSet::new(),
        ends: Vec::new(),
        spent: BTreeMap::new(),
        captured: Captured::default(),
        enqueue: Vec::new(),
        withdraw: Vec::new(),
        landed: Vec::new(),
        queued: Vec::new(),
        closed: Vec::new(),
        requeued: Vec::new(),
        explained: Vec::new(),
        split: Vec::new(),
        next_models: Vec::new(),
        failed_runs: BTreeSet::new(),
        turns: BTreeSet::new(),
    };
    let mut fates = Vec::with_capacity(incoming.len());
    for one in incoming {
        let fate = match dispatches.get_mut(&one.report.dispatch) {
            None => Fate::Unknown,
            Some(dispatch) => {
                let fate = batch.take(dispatch, one);
                // The same report twice in one batch: the second finds it over.
                if fate == Fate::Applied {
                    dispatch.state = DispatchState::Settled;
                }
                fate
            }
        };
        fates.push(fate);
    }
    batch.write(&mut tx, &mut signals).await?;
    tx.commit().await?;
    Ok((fates, signals))
}

impl Batch<'_> {
    /// Judges one report and notes what it changes.
    fn take(&mut self, dispatch: &Dispatch, one: &Incoming) -> Fate {
        match dispatch.state {
            DispatchState::Settled => return Fate::Applied,
            DispatchState::Superseded => {
                self.supersede(dispatch, one);
                return Fate::Superseded;
            }
            DispatchState::Live | DispatchState::Lost => {}
        }
        let Some(task) = self.tasks.get(&dispatch.task).cloned() else {
            return Fate::Unknown;
        };
        if task.dispatch != Some(dispatch.id.0) {
            self.supersede(dispatch, one);
            return Fate::Superseded;
        }
        if dispatch.state == DispatchState::Lost {
            self.withdraw.push(task.id.0);
        }
        self.changed.insert(task.id);
        match &one.report.finished {
            Finished::Session(report) => self.session(dispatch, task, &one.report, report, &one.text),
            Finished::Integration(report) => self.integration(dispatch, task, &one.report, report),
        }
        Fate::Applied
    }

    /// A report that came after the fence moved: kept with its usage and branch.
    fn supersede(&mut self, dispatch: &Dispatch, one: &Incoming) {
        if let Finished::Session(report) = &one.report.finished {
            self.spend(dispatch, report, false, false);
        }
        let judgement = Judgement {
            outcome: Outcome::Lost,
            step: Step::Retry,
            reason: Some("its report came after the task had been claimed again".to_owned()),
            run_failed: false,
        };
        self.ends.push(end(
            dispatch,
            DispatchState::Superseded,
            &judgement,
            &one.report,
            None,
            0,
        ));
    }

    fn session(
        &mut self,
        dispatch: &Dispatch,
        mut task: Task,
        report: &Report,
        session: &SessionReport,
        text: &str,
    ) {
        let kind = SessionKind::from(dispatch.kind);
        let tiers = self.settings.tiers.names();
        let short = task.id.short();
        let context = sigil::Context {
            kind,
            task_id: &short,
            model_tiers: &tiers,
        };
        let sigils = sigil::parse(text, &context);
        let has_repository = self.features.get(&task.feature).is_some_and(|f| f.has_repository);
        let facts = AttemptFacts {
            verify: task.verify && has_repository,
            needs_push: has_repository,
            pushed: session.snapshot.pushed_ref.is_some(),
            verify_tries: task.verify_tries,
        };
        let mut judgement = judge::session(kind, &session.ended, &sigils, facts);
        if judgement.outcome == Outcome::Error
            && let Some(error) = &session.snapshot.push_error
        {
            judgement.reason = Some(format!("{}: {error}", judgement.reason.unwrap_or_default()));
        }
        let counted =
            kind == SessionKind::Work && !matches!(judgement.outcome, Outcome::Door | Outcome::Lost);
        self.spend(dispatch, session, counted, judgement.outcome == Outcome::Done);
        let source = self.source(dispatch);
        if kind == SessionKind::Work {
            self.captured.learn(&source, &sigils);
            let reason = judgement.reason.as_deref();
            self.captured
                .failure(&source, judgement.outcome, reason, session, text, &sigils);
            if let Some(model) = &sigils.next_model
                && judgement.outcome != Outcome::Done
            {
                self.next_models.push((task.id, model.clone()));
            }
            keep_start(&mut task, session, &judgement);
        }
        if judgement.run_failed {
            self.failed_runs.insert(task.feature);
        }
        let journal = counted.then(|| capture::journal(&sigils));
        self.ends.push(end(
            dispatch,
            DispatchState::Settled,
            &judgement,
            report,
            journal,
            sigils.malformed,
        ));
        let blocked = judgement.outcome == Outcome::Failed && sigils.difficulty == Some(Difficulty::Blocked);
        match judgement.step {
            Step::Verify => self.verify(task),
            Step::Land if has_repository => self.queue_integration(task),
            Step::Land | Step::Landed => self.land(task),
            Step::Split => {
                let graph = sigils.task_graph.clone().unwrap_or_default();
                self.tasks.insert(task.id, task.clone());
                self.split.push((task.id, graph, sigils));
            }
            Step::Retry if blocked && kind == SessionKind::Work => {
                let reason = "the agent says that it is blocked".to_owned();
                self.to_person(task, reason);
            }
            Step::Retry => {
                if kind == SessionKind::Verify {
                    task.verification = Verification::Failed;
                }
                let changes = session.snapshot.files_changed_count > 0;
                self.retry(task, dispatch, &judgement, changes);
            }
            Step::Repeat => self.repeat_verify(task, &judgement),
        }
    }

    fn integration(
        &mut self,
        dispatch: &Dispatch,
        mut task: Task,
        report: &Report,
        integration: &IntegrationReport,
    ) {
        let open = self.integrations.get(&task.id).cloned();
        let tries = open.as_ref().map_or(1, |i| i.tries);
        let judgement = judge::integration(&integration.end, tries);
        self.ends
            .push(end(dispatch, DispatchState::Settled, &judgement, report, None, 0));
        self.turns.insert(task.feature);
        match judgement.step {
            Step::Landed => {
                if let IntegrationEnd::Merged { commit, empty } = &integration.end {
                    self.closed.push((
                        task.id,
                        IntegrationState::Merged,
                        Some(commit.clone()),
                        *empty,
                        None,
                    ));
                }
                self.land(task);
            }
            Step::Repeat => {
                self.requeued
                    .push((task.id, judgement.reason.clone().unwrap_or_default()));
                self.tasks.insert(task.id, task);
            }
            _ => {
                let state = match judgement.outcome {
                    Outcome::Conflict => IntegrationState::Conflict,
                    Outcome::Failed => IntegrationState::GateFailed,
                    _ => IntegrationState::Failed,
                };
                self.closed
                    .push((task.id, state, None, false, judgement.reason.clone()));
                if judgement.outcome == Outcome::Conflict {
                    task.start_commit = None;
                    task.start_ref = None;
                }
                if judgement.outcome == Outcome::Error {
                    let reason = judgement.reason.clone().unwrap_or_default();
                    self.to_person(
                        task,
                        format!("its work is pushed, but can't be brought onto the branch: {reason}"),
                    );
                } else {
                    self.retry(task, dispatch, &judgement, true);
                }
            }
        }
    }

    fn source(&self, dispatch: &Dispatch) -> Source {
        Source {
            repo_id: self
                .features
                .get(&dispatch.feature)
                .map(|f| f.repo_id.clone())
                .unwrap_or_default(),
            feature: dispatch.feature.0,
            task: dispatch.task.0,
            dispatch: dispatch.id.0,
            attempt: dispatch.attempt,
        }
    }

    fn spend(&mut self, dispatch: &Dispatch, session: &SessionReport, counted: bool, done: bool) {
        let spent = self.spent.entry(dispatch.run).or_default();
        spent.iterations += i32::from(counted);
        spent.succeeded += i32::from(counted && done);
        spent.input_tokens += whole(session.usage.input_tokens).unwrap_or(0);
        spent.output_tokens += whole(session.usage.output_tokens).unwrap_or(0);
        spent.cost_usd += session
            .usage
            .cost_usd
            .filter(|usd| usd.is_finite() && *usd >= 0.0)
            .unwrap_or(0.0);
    }

    fn move_to(&mut self, task: &mut Task, to: TaskState) {
        cascade::moved(&mut self.features, task.feature, task.state, to);
        task.state = to;
    }

    fn verify(&mut self, mut task: Task) {
        self.move_to(&mut task, TaskState::InProgress);
        task.next_kind = Some(Kind::Verify);
        task.verification = Verification::Pending;
        task.verify_tries = 0;
        self.enqueue.push((task.id, Duration::ZERO));
        self.tasks.insert(task.id, task);
    }

    fn repeat_verify(&mut self, mut task: Task, judgement: &Judgement) {
        self.move_to(&mut task, TaskState::InProgress);
        task.next_kind = Some(Kind::Verify);
        let mut delay = Duration::ZERO;
        match judgement.outcome {
            Outcome::NoSigil => task.verify_tries += 1,
            Outcome::Door => {
                let base = self.backoff(&task);
                let (next, trouble) = retry::decide(Outcome::Door, false, 0, task.trouble, base, jitter());
                task.trouble = trouble;
                match next {
                    Next::Again(wait) => delay = wait,
                    Next::NeedsReview => {
                        let reason = judgement.reason.clone().unwrap_or_default();
                        self.to_person(task, format!("the verifier fails at the door: {reason}"));
                        return;
                    }
                }
            }
            _ => {}
        }
        self.enqueue.push((task.id, delay));
        self.tasks.insert(task.id, task);
    }

    fn queue_integration(&mut self, mut task: Task) {
        self.move_to(&mut task, TaskState::InProgress);
        task.next_kind = Some(Kind::Integrate);
        if task.verification == Verification::Pending {
            task.verification = Verification::Passed;
        }
        let commit = task.start_commit.clone().unwrap_or_default();
        let source_ref = task.start_ref.clone().unwrap_or_default();
        self.queued.push((task.id, task.attempt, commit, source_ref));
        self.turns.insert(task.feature);
        self.tasks.insert(task.id, task);
    }

    fn land(&mut self, mut task: Task) {
        self.move_to(&mut task, TaskState::Done);
        task.trouble = Trouble::default();
        task.next_kind = Some(Kind::Work);
        self.landed.push(task.id);
        self.explained.push((task.id, None));
        self.tasks.insert(task.id, task);
    }

    fn retry(&mut self, mut task: Task, dispatch: &Dispatch, judgement: &Judgement, with_changes: bool) {
        let base = self.runs.get(&dispatch.run).map_or(Duration::ZERO, |run| {
            Duration::from_millis(u64::try_from(run.settings.backoff_ms).unwrap_or(0))
        });
        // What came back by itself was not lost after all.
        let outcome = if judgement.outcome == Outcome::Lost {
            Outcome::Interrupted
        } else {
            judgement.outcome
        };
        let (next, trouble) = retry::decide(
            outcome,
            with_changes,
            task.max_retries,
            task.trouble,
            base,
            jitter(),
        );
        task.trouble = trouble;
        task.next_kind = Some(Kind::Work);
        match next {
            Next::Again(delay) => {
                self.move_to(&mut task, TaskState::Pending);
                self.enqueue.push((task.id, delay));
                self.tasks.insert(task.id, task);
            }
            Next::NeedsReview => {
                let why = judgement
                    .reason
                    .clone()
                    .unwrap_or_else(|| judgement.outcome.as_str().to_owned());
                self.to_person(task, why);
            }
        }
    }

    fn to_person(&mut self, mut task: Task, reason: String) {
        self.move_to(&mut task, TaskState::NeedsReview);
        task.next_kind = Some(Kind::Work);
        self.explained.push((task.id, Some(reason)));
        self.tasks.insert(task.id, task);
    }

    fn backoff(&self, task: &Task) -> Duration {
        let run = self
            .features
            .get(&task.feature)
            .and_then(|f| f.current_run)
            .and_then(|run| self.runs.get(&run));
        run.map_or(Duration::ZERO, |run| {
            Duration::from_millis(u64::try_from(run.settings.backoff_ms).unwrap_or(0))
        })
    }

    /// Writes everything in the order that the locks and the readers within the transaction need.
    async fn write(mut self, conn: &mut PgConnection, signals: &mut Signals) -> sqlx::Result<()> {
        for (id, graph, sigils) in std::mem::take(&mut self.split) {
            self.split_task(conn, id, &graph, &sigils).await?;
        }
        let changed: Vec<&Task> = self.changed.iter().filter_map(|id| self.tasks.get(id)).collect();
        store::task::save(conn, &changed).await?;
        store::dispatch::end(conn, &self.ends).await?;
        if !self.withdraw.is_empty() {
            store::ready::withdraw(conn, &self.withdraw).await?;
        }
        self.captured.save(conn).await?;
        for (task, reason) in &self.explained {
            if reason.is_some() {
                store::task::explain(conn, *task, reason.as_deref()).await?;
            }
        }
        for (task, model) in &self.next_models {
            store::task::set_model(conn, *task, model).await?;
        }
        for (task, state, landed, empty, message) in &self.closed {
            store::integration::close(conn, *task, *state, landed.as_deref(), *empty, message.as_deref())
                .await?;
        }
        for (task, message) in &self.requeued {
            store::integration::requeue(conn, *task, message).await?;
        }
        for (task, attempt, commit, source_ref) in &self.queued {
            let feature = self.tasks[task].feature;
            store::integration::queue(conn, feature, *task, *attempt, commit, source_ref).await?;
        }
        let ids: Vec<Uuid> = self.enqueue.iter().map(|(task, _)| task.0).collect();
        let delays: Vec<i64> = self
            .enqueue
            .iter()
            .map(|(_, delay)| i64::try_from(delay.as_millis()).unwrap_or(0))
            .collect();
        let pools = store::ready::enqueue(conn, &ids, &delays).await?;
        signals.got_work(pools);
        let landed: Vec<Uuid> = self.landed.iter().map(|task| task.0).collect();
        store::memory::release(conn, &landed).await?;
        if !self.landed.is_empty() {
            cascade::resolved(
                conn,
                &mut self.features,
                std::mem::take(&mut self.landed),
                signals,
            )
            .await?;
        }
        integrate::promote(conn, &self.turns, signals).await?;
        for (run, spent) in &self.spent {
            if *spent != Spent::default() {
                store::run::spend(conn, *run, spent).await?;
            }
        }
        for feature in &self.failed_runs {
            finish::promise_failure(conn, &mut self.features, *feature, signals).await?;
        }
        finish::check(conn, &mut self.features, signals).await?;
        cascade::save_features(conn, &self.features, signals).await
    }

    /// Makes a task the parent of the graph that its agent sent; a graph that can't be used fails the attempt.
    async fn split_task(
        &mut self,
        conn: &mut PgConnection,
        id: TaskId,
        graph: &str,
        _sigils: &Sigils,
    ) -> sqlx::Result<()> {
        let Some(mut task) = self.tasks.get(&id).cloned() else {
            return Ok(());
        };
        match super::submit::split(conn, &task, graph).await? {
            Ok(children) => {
                self.move_to(&mut task, TaskState::InProgress);
                task.next_kind = None;
                task.children += i32::try_from(children.len()).unwrap_or(0);
                if let Some(feature) = self.features.get_mut(&task.feature) {
                    for child in &children {
                        feature.counts.add(child.state, 1);
                    }
                }
                self.enqueue.extend(
                    children
                        .iter()
                        .filter(|c| c.ready)
                        .map(|c| (c.id, Duration::ZERO)),
                );
                self.tasks.insert(id, task);
            }
            Err(problem) => {
                if let Some(end) = self.ends.iter_mut().find(|end| Some(end.id.0) == task.dispatch) {
                    end.outcome = Outcome::Failed;
                    end.reason = Some(problem.clone());
                }
                let base = self.backoff(&task);
                let (next, trouble) = retry::decide(
                    Outcome::Failed,
                    false,
                    task.max_retries,
                    task.trouble,
                    base,
                    jitter(),
                );
                task.trouble = trouble;
                match next {
                    Next::Again(delay) => {
                        self.move_to(&mut task, TaskState::Pending);
                        self.enqueue.push((id, delay));
                        self.tasks.insert(id, task);
                    }
                    Next::NeedsReview => self.to_person(task, problem),
                }
            }
        }
        Ok(())
    }
}

/// Where the task's next dispatch starts (SPEC 3.3): from the feature branch when the agent itself said that it failed,
/// else from what this session pushed.
fn keep_start(task: &mut Task, session: &SessionReport, judgement: &Judgement) {
    if judgement.outcome == Outcome::Failed {
        task.start_commit = None;
        task.start_ref = None;
    } else if let (Some(commit), Some(pushed)) = (&session.snapshot.commit, &session.snapshot.pushed_ref) {
        task.start_commit = Some(commit.clone());
        task.start_ref = Some(pushed.clone());
    }
}

fn jitter() -> f64 {
    rand::random_range(0.0..1.0)
}

fn whole(n: Option<u64>) -> Option<i64> {
    n.and_then(|n| i64::try_from(n).ok())
}

fn end(
    dispatch: &Dispatch,
    state: DispatchState,
    judgement: &Judgement,
    report: &Report,
    journal: Option<String>,
    malformed: u32,
) -> End {
    let mut end = End {
        id: dispatch.id,
        state,
        outcome: judgement.outcome,
        reason: judgement.reason.clone(),
        journal,
        commit: None,
        pushed_ref: None,
        files_changed: Vec::new(),
        stop_reason: None,
        agent: None,
        duration_ms: i64::try_from(report.duration_ms).unwrap_or(i64::MAX),
        input_tokens: None,
        output_tokens: None,
        cost_usd: None,
        tool_calls: 0,
        malformed_sigils: i32::try_from(malformed).unwrap_or(i32::MAX),
    };
    match &report.finished {
        Finished::Session(session) => {
            end.commit = session.snapshot.commit.clone();
            end.pushed_ref = session.snapshot.pushed_ref.clone();
            end.files_changed = session.snapshot.files_changed.clone();
            end.stop_reason = match &session.ended {
                Ended::Turn { stop_reason } => Some(stop_reason.clone()),
                _ => None,
            };
            end.agent = session
                .agent
                .name
                .clone()
                .or_else(|| Some(session.agent.configured.clone()));
            end.input_tokens = whole(session.usage.input_tokens);
            end.output_tokens = whole(session.usage.output_tokens);
            end.cost_usd = session.usage.cost_usd.filter(|usd| usd.is_finite());
            end.tool_calls = i32::try_from(session.tool_calls).unwrap_or(i32::MAX);
        }
        Finished::Integration(integration) => {
            if let IntegrationEnd::Merged { commit, .. } = &integration.end {
                end.commit = Some(commit.clone());
            }
        }
    }
    end
}
