//! Judges each report of a batch and notes what it changes; nothing is written here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ralph_shared::ids::{DispatchId, FeatureId, RunId, ShortPrefix, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{ErrorCategory, Sigils};
use ralph_shared::wire::{
    Finished, GitOperation, IntegrationEnd, IntegrationReport, Report, SessionReport, Stray, Usage,
};
use uuid::Uuid;

use super::super::Settings;
use super::super::cascade::Features;
use super::record::{end, used};
use super::settle::{Fate, Incoming, broken};
use crate::domain::failure::Failure;
use crate::domain::failure::silence::{self, Silence};
use crate::domain::gate::History;
use crate::domain::outcome::{self, AttemptFacts, IntegrationFacts, Judgement, Step};
use crate::domain::routing::strategy;
use crate::domain::run::{Run, Spent};
use crate::domain::states::{Outcome, TaskState, Verification};
use crate::domain::text::document::document;
use crate::flow::apply::availability::AvailabilityChanges;
use crate::flow::memory::capture::{self, Captured};
use crate::flow::{memory::distill, submit::agent_graph};
use crate::store::dispatch::{Dispatch, DispatchState, End};
use crate::store::feature::Text;
use crate::store::git::gate::Checked;
use crate::store::git::integration::{Closed, Collision, Integration, IntegrationState};
use crate::store::git::operation;
use crate::store::memory::Source;
use crate::store::task::Task;

/// Stands where a verifier gave no reason.
const REFUSED: &str = "it was refused without a reason";
/// Most conflicting paths that are kept.
const MAX_PATHS: usize = 100;

/// Everything that a batch changes, collected before it is written.
pub(super) struct Batch<'a> {
    pub settings: &'a Settings,
    pub features: Features,
    pub runs: HashMap<RunId, Run>,
    pub tasks: HashMap<TaskId, Task>,
    pub integrations: HashMap<TaskId, Integration>,
    pub changed: HashSet<TaskId>,
    pub ends: Vec<End>,
    pub spent: BTreeMap<RunId, Spent>,
    pub captured: Captured,
    pub enqueue: Vec<(TaskId, Duration)>,
    pub withdraw: Vec<Uuid>,
    pub landed: Vec<TaskId>,
    pub queued: Vec<(TaskId, i32, String, String)>,
    pub closed: Vec<Closed>,
    pub requeued: Vec<TaskId>,
    /// Attempts that are judged again within their turn: the commit and its ref.
    pub judged_again: Vec<(TaskId, String, String)>,
    /// Tasks that keep their turn for the next dispatch.
    pub turn_kept: Vec<Uuid>,
    pub explained: Vec<(TaskId, Option<String>)>,
    /// Why attempts that are pushed can't land yet, which calls nobody; `None` where that is over.
    pub waiting: Vec<(TaskId, Option<String>)>,
    /// Tasks that failed for good, and why.
    pub failed: Vec<(FeatureId, TaskId, String)>,
    pub split: Vec<(TaskId, String)>,
    /// Graphs that become tasks of the feature; the session's own task is done then.
    pub grown: Vec<(TaskId, String)>,
    /// What sessions answered that merge learnings.
    pub distilled: Vec<distill::MergedLearnings>,
    /// Reviews that land: what they ask for becomes tasks.
    pub reviewed: Vec<TaskId>,
    pub written: Vec<(FeatureId, Text, Option<String>)>,
    /// What its sessions tell of their agents' doors.
    pub doors: AvailabilityChanges,
    /// What is known of the accounts whose turns were empty.
    pub silences: HashMap<String, Silence>,
    /// Models that agents asked for; `None` where the attempt that had one is over.
    pub next_models: Vec<(TaskId, Option<String>)>,
    /// What attempts that sent a graph reported themselves, should it be refused.
    pub if_refused: HashMap<TaskId, (Source, Arc<Sigils>)>,
    pub failed_runs: BTreeSet<FeatureId>,
    /// Dispatches whose work was pushed after they were over: the commit and its ref.
    pub pushed_late: Vec<(DispatchId, String, String)>,
    /// What dispatches that are over left elsewhere, and what became of it.
    pub strays_late: Vec<(DispatchId, Vec<Stray>)>,
    /// What tasks of the role `git` do.
    pub operations: HashMap<TaskId, GitOperation>,
    /// Those of them that landed.
    pub operated: Vec<TaskId>,
    /// The base that an update took in.
    pub bases: HashMap<TaskId, String>,
    /// What had landed of the features that merges brought.
    pub delivered: HashMap<TaskId, String>,
    /// What became of operations that took no turn.
    pub noted: Vec<operation::Ended>,
    /// Operations that go on another way.
    pub altered: Vec<(TaskId, GitOperation)>,
    /// Operations of whose pushes it is known by now what came of them.
    pub found_out: Vec<TaskId>,
    pub turns: BTreeSet<FeatureId>,
    /// What is known of the gate, of tasks that it refused.
    pub histories: HashMap<TaskId, History>,
    /// What came of the gate on base commits.
    pub checks: Vec<(FeatureId, Checked)>,
    /// Features whose gate may fail for its environment, and why.
    pub doubts: Vec<(FeatureId, String)>,
}

impl<'a> Batch<'a> {
    /// A batch on what the transaction has locked and read.
    pub(super) fn new(
        settings: &'a Settings,
        features: Features,
        runs: Vec<Run>,
        tasks: Vec<Task>,
        integrations: Vec<Integration>,
        operations: HashMap<TaskId, GitOperation>,
    ) -> Self {
        Self {
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
            judged_again: Vec::new(),
            turn_kept: Vec::new(),
            explained: Vec::new(),
            waiting: Vec::new(),
            failed: Vec::new(),
            split: Vec::new(),
            grown: Vec::new(),
            distilled: Vec::new(),
            reviewed: Vec::new(),
            written: Vec::new(),
            next_models: Vec::new(),
            if_refused: HashMap::new(),
            doors: AvailabilityChanges::default(),
            silences: HashMap::new(),
            failed_runs: BTreeSet::new(),
            pushed_late: Vec::new(),
            strays_late: Vec::new(),
            operations,
            operated: Vec::new(),
            bases: HashMap::new(),
            delivered: HashMap::new(),
            noted: Vec::new(),
            altered: Vec::new(),
            found_out: Vec::new(),
            turns: BTreeSet::new(),
            histories: HashMap::new(),
            checks: Vec::new(),
            doubts: Vec::new(),
        }
    }
}

impl Batch<'_> {
    /// Judges one report and notes what it changes.
    pub(super) fn take(&mut self, dispatch: &Dispatch, one: &Incoming) -> Fate {
        match dispatch.state {
            DispatchState::Settled => {
                self.pushed_late(dispatch, one);
                return Fate::Applied;
            }
            DispatchState::Superseded => {
                // What it spent counts once.
                if dispatch.reported {
                    self.pushed_late(dispatch, one);
                } else {
                    self.supersede(dispatch, one);
                }
                return Fate::Superseded;
            }
            DispatchState::Live | DispatchState::Lost => {}
        }
        let Some(task) = self.tasks.get(&dispatch.task).cloned() else {
            return Fate::Unknown;
        };
        // Nothing moves a task that is over, whatever its fence says.
        let over = task.state.is_resolved() || task.state == TaskState::Failed;
        if over || task.dispatch != Some(dispatch.id) {
            self.supersede(dispatch, one);
            return Fate::Superseded;
        }
        if dispatch.state == DispatchState::Lost {
            self.withdraw.push(task.id.0);
        }
        self.changed.insert(task.id);
        if task.trouble.conflicts > 0 {
            // What waits for it to be out of the way may go on.
            self.turns.insert(task.feature);
        }
        let integrates = dispatch.kind == SessionKind::Integrate;
        let has_agent = dispatch.kind.has_agent();
        if !has_agent && matches!(one.report.finished, Finished::Integration(_)) {
            self.count(dispatch, dispatch.used.settled());
        }
        match &one.report.finished {
            Finished::Integration(report) if dispatch.kind == SessionKind::Git => {
                self.operation(dispatch, task, &one.report, report);
            }
            Finished::Integration(report) if dispatch.kind == SessionKind::Check => {
                self.checked(dispatch, task, &one.report, report);
            }
            Finished::Integration(IntegrationReport {
                end: end @ IntegrationEnd::Merged { .. },
            }) if has_agent => self.landed_before(dispatch, task, &one.report, end),
            Finished::Session(report) if has_agent => {
                self.session(dispatch, task, one, report);
            }
            Finished::Integration(report) if integrates => {
                self.integration(dispatch, task, &one.report, report);
            }
            _ => {
                let report = broken(dispatch, "its report is not of its kind".to_owned());
                return self.take(dispatch, &report);
            }
        }
        Fate::Applied
    }

    pub(super) fn session(
        &mut self,
        dispatch: &Dispatch,
        mut task: Task,
        one: &Incoming,
        session: &SessionReport,
    ) {
        let (kind, report, text) = (dispatch.kind, &one.report, &one.text);
        let sigils = one.sigils(self.settings, dispatch);
        let feature = self.features.get(&task.feature);
        let has_repository = feature.is_some_and(|f| f.has_repository);
        let has_dir = feature.is_some_and(|f| f.has_dir);
        let document =
            document(text).filter(|_| matches!(dispatch.kind, SessionKind::Spec | SessionKind::Plan));
        let facts = AttemptFacts {
            verify: task.verify && (has_repository || has_dir),
            needs_push: has_repository,
            pushed: session.snapshot.pushed_ref.is_some(),
            verify_tries: task.verify_tries,
            // What an earlier attempt of a review corrected stands in the commit from which this one began.
            changed: session.snapshot.files_changed_count > 0
                || (kind == SessionKind::Review && task.start_commit.is_some()),
            wrote: document.is_some(),
        };
        let mut judgement = outcome::session(kind, &session.ended, &sigils, facts);
        let account = &session.agent.account;
        let meaning = (silence::is_empty(session, text) && !account.is_empty()).then(|| {
            let known = self.silences.entry(account.clone()).or_default();
            known.met(task.id)
        });
        if let Some(meaning) = meaning {
            judgement = outcome::empty_turn(kind, meaning, judgement);
        }
        if kind == SessionKind::Work && judgement.outcome == Outcome::Done {
            judgement.reason = outcome::doubt(session.tool_calls, session.failed_tool_calls, facts);
        }
        judgement = outcome::bulky(kind, &session.snapshot.bulk, judgement);
        if let Some(unread) = &session.unread_output
            && !matches!(
                judgement.outcome,
                Outcome::Done | Outcome::Passed | Outcome::Split
            )
        {
            judgement.reason = Some(match judgement.reason {
                Some(reason) => format!("{reason}; {unread}"),
                None => unread.clone(),
            });
        }
        if judgement.outcome == Outcome::Error
            && let Some(error) = &session.snapshot.push_error
        {
            judgement.reason = Some(format!("{}: {error}", judgement.reason.unwrap_or_default()));
        }
        let begins = dispatch.kind.begins_attempt();
        self.doors.note(dispatch, session, &judgement, meaning);
        let counted = kind == SessionKind::Work && !judgement.is_nobodys();
        self.spend(dispatch, session, counted, judgement.outcome == Outcome::Done);
        self.captured.asked(dispatch.id, task.id, &session.questions);
        let source = self.source(dispatch);
        if begins {
            if dispatch.kind != SessionKind::Distill {
                self.captured
                    .learn(&source, &sigils, &session.snapshot.files_changed);
            } else if judgement.outcome == Outcome::Done {
                self.distilled.push(distill::MergedLearnings {
                    task: task.id,
                    source: source.clone(),
                    learnings: sigils.learnings.clone(),
                    knowledge: sigils.knowledge.clone(),
                });
            }
            let reason = judgement.reason.as_deref();
            if !judgement.is_nobodys() {
                self.captured
                    .failure(&source, judgement.outcome, reason, session, text, &sigils);
            }
            let had_hint =
                dispatch.model_reason.as_deref() == Some(strategy::HINTED) && !judgement.is_nobodys();
            if sigils.next_model.is_some() || had_hint {
                self.next_models.push((task.id, sigils.next_model.clone()));
            }
            if sigils.task_graph.is_some() {
                self.if_refused
                    .insert(task.id, (source.clone(), Arc::clone(&sigils)));
            }
        }
        if dispatch.kind == SessionKind::Verify && judgement.outcome == Outcome::Failed {
            let reason = judgement.reason.as_deref().unwrap_or(REFUSED);
            self.captured.refusal(&source, ErrorCategory::Unknown, reason);
            self.not_done_after_all(dispatch);
        }
        if dispatch.kind.changes_files() {
            keep_start(&mut task, session, &judgement);
        }
        if judgement.run_failed {
            self.failed_runs.insert(task.feature);
        }
        // A review is no iteration, but what it wrote for its successors is told.
        let wrote = kind == SessionKind::Review && sigils.journal.is_some();
        let journal = (counted || wrote).then(|| capture::journal(&sigils));
        let mut end = end(
            dispatch,
            DispatchState::Settled,
            &judgement,
            report,
            journal,
            sigils.malformed,
        );
        if counted {
            end.iteration = self.iteration(dispatch);
            end.difficulty = sigils.difficulty;
        }
        self.ends.push(end);
        if dispatch.kind == SessionKind::Verify {
            self.verified_in_turn(&task, &judgement);
        }
        if judgement.grows && judgement.step == Step::Landed {
            self.grown.push((task.id, agent_graph::asked_for(&sigils)));
            self.tasks.insert(task.id, task);
            return;
        }
        if dispatch.kind == SessionKind::Review && judgement.outcome == Outcome::Done {
            // What it corrected itself may still fail: what it asks for waits for that, and an older wish is void.
            let asked = judgement.grows.then(|| agent_graph::asked_for(&sigils));
            if let Some(Err(problem)) = asked.as_deref().map(|graph| agent_graph::check(graph, false)) {
                self.refuse_graph(task, problem);
                return;
            }
            self.written.push((task.feature, Text::ProposedGraph, asked));
        }
        match judgement.step {
            Step::Verify | Step::Land | Step::Landed => self.go_on(task, judgement.step),
            Step::Wrote => self.wrote(task, document.unwrap_or_default()),
            Step::Split => {
                self.split
                    .push((task.id, sigils.task_graph.clone().unwrap_or_default()));
                self.tasks.insert(task.id, task);
            }
            Step::Ask if judgement.failure == Some(Failure::Blocked) => {
                let why = judgement.reason.map(|why| format!(": {why}")).unwrap_or_default();
                self.needs_person(task, format!("the agent says that it is blocked{why}"));
            }
            Step::Retry => {
                if kind == SessionKind::Verify {
                    task.verification = Verification::Failed;
                }
                let changes = session.snapshot.files_changed_count > 0;
                self.retry(task, dispatch, &judgement, changes);
            }
            Step::Repeat => self.repeat_verify(task, dispatch, &judgement),
            Step::Resolve | Step::Ask => {
                let reason = judgement.reason.unwrap_or_default();
                self.needs_person(task, reason);
            }
        }
    }

    /// The number of the iteration that was counted last: its run's and those of this batch.
    fn iteration(&self, dispatch: &Dispatch) -> Option<i32> {
        let before = self.runs.get(&dispatch.run)?.iterations;
        Some(before + self.spent.get(&dispatch.run)?.iterations)
    }

    pub(super) fn integration(
        &mut self,
        dispatch: &Dispatch,
        task: Task,
        report: &Report,
        integration: &IntegrationReport,
    ) {
        let open = self.integrations.get(&task.id).cloned();
        let state = open.as_ref().map(|i| i.state);
        let is_decided = state == Some(IntegrationState::Decided);
        let has_turn = state == Some(IntegrationState::Turn);
        let facts = IntegrationFacts {
            tries: open.as_ref().map_or(1, |i| i.tries),
            away: open.as_ref().map_or(0, |i| i.away),
            is_decided,
        };
        let judgement = outcome::integration(&integration.end, facts);
        let (judgement, gate_signature) = self.refused_by_gate(&task, &integration.end, judgement);
        self.ends
            .push(end(dispatch, DispatchState::Settled, &judgement, report, None, 0));
        self.turns.insert(task.feature);
        self.tell_wait(&task, facts.away, &judgement);
        match judgement.step {
            Step::Landed => {
                if let IntegrationEnd::Merged { commit, empty } = &integration.end {
                    self.closed.push(Closed {
                        landed: Some(commit.clone()),
                        empty: *empty,
                        ..Closed::without_landing(task.id, IntegrationState::Merged)
                    });
                }
                self.land(task);
            }
            // What somebody was allowed to push may have arrived: until it is tried no more, only who finds that it can't voids it.
            Step::Repeat if is_decided && !matches!(integration.end, IntegrationEnd::Void { .. }) => {
                self.turn_kept.push(task.id.0);
                self.tasks.insert(task.id, task);
            }
            Step::Verify if has_turn => self.verify_in_turn(task, &integration.end),
            // Without the turn, which it lost with its lease, it finds the same when it has it again.
            Step::Repeat | Step::Verify => {
                self.requeued.push(task.id);
                self.tasks.insert(task.id, task);
            }
            _ => {
                if judgement.outcome == Outcome::Failed {
                    let reason = judgement.reason.as_deref().unwrap_or(REFUSED);
                    let source = self.source(dispatch);
                    self.captured.refusal(&source, ErrorCategory::TestFailure, reason);
                    self.not_done_after_all(dispatch);
                }
                let state = match judgement.outcome {
                    Outcome::Conflict => IntegrationState::Conflict,
                    Outcome::Failed => IntegrationState::GateFailed,
                    Outcome::Void => IntegrationState::Withdrawn,
                    _ => IntegrationState::Failed,
                };
                self.closed.push(Closed {
                    collision: collision(&integration.end),
                    gate_signature,
                    ..Closed::without_landing(task.id, state)
                });
                if judgement.step == Step::Ask {
                    self.protects(task, &judgement);
                } else if judgement.outcome == Outcome::Error {
                    self.needs_person_to_land(task, &judgement);
                } else {
                    self.retry(task, dispatch, &judgement, true);
                }
            }
        }
    }

    pub(super) fn source(&self, dispatch: &Dispatch) -> Source {
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

    /// An attempt that its agent took for done was refused.
    fn not_done_after_all(&mut self, dispatch: &Dispatch) {
        self.spent.entry(dispatch.run).or_default().succeeded -= 1;
    }

    pub(super) fn spend(&mut self, dispatch: &Dispatch, session: &SessionReport, counted: bool, done: bool) {
        let spent = self.spent.entry(dispatch.run).or_default();
        spent.iterations += i32::from(counted);
        spent.succeeded += i32::from(counted && done);
        self.count(dispatch, used(dispatch, session));
    }

    /// Counts for its run what a dispatch used in all, but for what was counted before.
    pub(super) fn count(&mut self, dispatch: &Dispatch, used: Usage) {
        let before = match dispatch.state {
            DispatchState::Live => Usage::default(),
            _ => dispatch.used,
        };
        self.spent.entry(dispatch.run).or_default().more(&before, &used);
    }
}

/// What a conflict was about. The trailers are a repository's text: what is no whole id is left out.
pub(super) fn collision(end: &IntegrationEnd) -> Collision {
    let IntegrationEnd::Conflict { paths, others, .. } = end else {
        return Collision::default();
    };
    let ids = others.iter().filter_map(|id| TaskId::parse_prefix(id).ok());
    Collision {
        paths: paths.iter().take(MAX_PATHS).cloned().collect(),
        others: ids
            .filter(ShortPrefix::is_whole)
            .map(|id| id.as_str().to_owned())
            .collect(),
    }
}

/// Where the task's next dispatch starts (SPEC 3.3): from the feature branch when the agent itself said that it failed,
/// else from what this session pushed.
pub(super) fn keep_start(task: &mut Task, session: &SessionReport, judgement: &Judgement) {
    let is_review = task.role == SessionKind::Review;
    if judgement.outcome == Outcome::Failed {
        task.start_commit = None;
        task.start_ref = None;
    } else if is_review && task.start_commit.is_none() && session.snapshot.files_changed_count == 0 {
        // It corrected nothing: whoever reviews next looks at what has landed by then.
    } else if let (Some(commit), Some(pushed)) = (&session.snapshot.commit, &session.snapshot.pushed_ref) {
        task.start_commit = Some(commit.clone());
        task.start_ref = Some(pushed.clone());
    }
}
