//! Judges each report of a batch and collects the changes. Writes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ralph_shared::ids::{DispatchId, FeatureId, RunId, ShortPrefix, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{ErrorCategory, Sigils};
use ralph_shared::wire::{
    Finished, GitOperation, IntegrationEnd, IntegrationReport, OrphanRef, Report, SessionReport, Usage,
};
use uuid::Uuid;

use super::super::Settings;
use super::super::cascade::Features;
use super::incoming::{Incoming, ReportFate};
use super::record::{end, used};
use super::session::EndedSession;
use crate::domain::failure::silence::Silence;
use crate::domain::gate::History;
use crate::domain::outcome::{self, IntegrationFacts, Judgement, Step};
use crate::domain::run::{Run, Spent};
use crate::domain::states::{Outcome, TaskState};
use crate::flow::apply::availability::AvailabilityChanges;
use crate::flow::memory::capture::Captured;
use crate::flow::memory::distill;
use crate::store::dispatch::{Dispatch, DispatchState, End};
use crate::store::feature::Text;
use crate::store::git::gate::Checked;
use crate::store::git::integration::{ClosedIntegration, Collision, Integration, IntegrationState};
use crate::store::git::operation;
use crate::store::git::train::{CheckEnd, Ran};
use crate::store::memory::Source;
use crate::store::task::Task;

/// Reason of a refusal without a reason.
pub(super) const REFUSED: &str = "it was refused without a reason";
/// Most stored conflicting paths.
const MAX_PATHS: usize = 100;

/// All changes of a batch, before they are written.
#[derive(Default)]
pub(super) struct Batch {
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
    pub closed: Vec<ClosedIntegration>,
    pub requeued: Vec<TaskId>,
    /// Attempts to verify again within their turn: the commit and its ref.
    pub judged_again: Vec<(TaskId, String, String)>,
    /// Tasks that keep their turn for the next dispatch.
    pub turn_kept: Vec<Uuid>,
    pub explained: Vec<(TaskId, Option<String>)>,
    /// Why pushed attempts cannot land yet, without a call for a person; `None` once they can.
    pub waiting: Vec<(TaskId, Option<String>)>,
    /// Tasks that failed for good, and why.
    pub failed: Vec<(FeatureId, TaskId, String)>,
    pub split: Vec<(TaskId, String)>,
    /// Graphs that become tasks of the feature; the task of the session is then done.
    pub grown: Vec<(TaskId, String)>,
    /// Answers of sessions that merge learnings.
    pub distilled: Vec<distill::MergedLearnings>,
    /// Reviews that land; their requests become tasks.
    pub reviewed: Vec<TaskId>,
    pub written: Vec<(FeatureId, Text, Option<String>)>,
    /// What sessions reveal about the availability of their agents.
    pub availability: AvailabilityChanges,
    /// Accounts with empty turns.
    pub silences: HashMap<String, Silence>,
    /// Questions of sessions that ended because nobody had answered them, and that are still unanswered.
    pub unanswered: HashMap<DispatchId, String>,
    /// Models that agents asked for; `None` where the attempt with that model is over.
    pub next_models: Vec<(TaskId, Option<String>)>,
    /// Failure reports of attempts that sent a graph, in case it is refused.
    pub if_refused: HashMap<TaskId, (Source, Arc<Sigils>)>,
    pub failed_runs: BTreeSet<FeatureId>,
    /// Dispatches whose work was pushed after their end: the commit and its ref.
    pub pushed_late: Vec<(DispatchId, String, String)>,
    /// Orphan commits of dispatches that are over, and their refs.
    pub late_orphans: Vec<(DispatchId, Vec<OrphanRef>)>,
    /// Operations of tasks with the role `git`.
    pub operations: HashMap<TaskId, GitOperation>,
    /// Operations that landed.
    pub operated: Vec<TaskId>,
    /// The base that an update merged.
    pub bases: HashMap<TaskId, String>,
    /// The last landing of a feature that a merge delivered.
    pub delivered: HashMap<TaskId, String>,
    /// Ends of operations without a turn.
    pub noted: Vec<operation::OperationEnd>,
    /// Operations that continue in another way.
    pub altered: Vec<(TaskId, GitOperation)>,
    /// Operations of which we know whether their push arrived.
    pub resolved_pushes: Vec<TaskId>,
    pub turns: BTreeSet<FeatureId>,
    /// Past gate results of tasks that the gate refused.
    pub histories: HashMap<TaskId, History>,
    /// Results of the gate on base commits.
    pub checks: Vec<(FeatureId, Checked)>,
    /// Ends of checks ahead of their turn.
    pub checked_ahead: Vec<CheckEnd>,
    /// Trees on which the gate ran.
    pub ran: Vec<Ran>,
    /// Features whose gate may fail because of its environment, and why.
    pub doubts: Vec<(FeatureId, String)>,
}

impl Batch {
    /// Judges one report and collects its changes.
    pub(super) fn take(&mut self, settings: &Settings, dispatch: &Dispatch, one: &Incoming) -> ReportFate {
        match dispatch.state {
            DispatchState::Settled => {
                self.pushed_late(dispatch, one);
                return ReportFate::Applied;
            }
            DispatchState::Superseded => {
                // What it spent counts once.
                if dispatch.reported {
                    self.pushed_late(dispatch, one);
                } else {
                    self.supersede(dispatch, one);
                }
                return ReportFate::Superseded;
            }
            DispatchState::Live | DispatchState::Lost => {}
        }
        let Some(task) = self.tasks.get(&dispatch.task).cloned() else {
            return ReportFate::Unknown;
        };
        // Nothing moves a task that is over, whatever its fence.
        let over = task.state.is_resolved() || task.state == TaskState::Failed;
        if over || task.dispatch != Some(dispatch.id) {
            self.supersede(dispatch, one);
            return ReportFate::Superseded;
        }
        if dispatch.state == DispatchState::Lost {
            self.withdraw.push(task.id.0);
        }
        self.changed.insert(task.id);
        if task.trouble.conflicts > 0 {
            // Attempts that wait for this one may continue.
            self.turns.insert(task.feature);
        }
        self.take_current(settings, dispatch, task, one)
    }

    fn take_current(
        &mut self,
        settings: &Settings,
        dispatch: &Dispatch,
        task: Task,
        one: &Incoming,
    ) -> ReportFate {
        let integrates = dispatch.kind == SessionKind::Integrate;
        let has_agent = dispatch.kind.has_agent();
        if !has_agent && matches!(one.report.finished, Finished::Integration(_)) {
            self.count(dispatch, dispatch.used.settled());
        }
        match &one.report.finished {
            Finished::Integration(report) if dispatch.kind == SessionKind::Git => {
                self.operation(dispatch, task, &one.report, report);
            }
            Finished::Integration(report)
                if dispatch.kind == SessionKind::Check && task.role != SessionKind::Check =>
            {
                self.checked_ahead(dispatch, task, &one.report, report);
            }
            Finished::Integration(report) if dispatch.kind == SessionKind::Check => {
                self.checked(dispatch, task, &one.report, report);
            }
            Finished::Integration(IntegrationReport {
                end: end @ IntegrationEnd::Merged { .. },
                ..
            }) if has_agent => self.landed_before(dispatch, task, &one.report, end),
            Finished::Session(report) if has_agent => {
                self.session(&EndedSession::new(settings, dispatch, one, report), task);
            }
            Finished::Integration(report) if integrates => {
                self.integration(dispatch, task, &one.report, report);
            }
            _ => {
                let report = Incoming::broken(dispatch, "its report is not of its kind".to_owned());
                return self.take(settings, dispatch, &report);
            }
        }
        ReportFate::Applied
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
        self.gate_ran(&task, report, integration, Vec::new());
        let (judgement, gate_signature) = self.refused_by_gate(&task, &integration.end, judgement);
        self.ends
            .push(end(dispatch, DispatchState::Settled, &judgement, report, None, 0));
        self.turns.insert(task.feature);
        self.record_wait(&task, facts.away, &judgement);
        match judgement.step {
            Step::Landed => {
                if let IntegrationEnd::Merged { commit, empty } = &integration.end {
                    self.landed_in_turn(task.id, commit, *empty);
                }
                self.land(task);
            }
            // An allowed push may have arrived. While it is retried, only the worker that finds it impossible
            // voids it.
            Step::Repeat if is_decided && !matches!(integration.end, IntegrationEnd::Void { .. }) => {
                self.turn_kept.push(task.id.0);
                self.tasks.insert(task.id, task);
            }
            Step::Verify if has_turn => self.verify_in_turn(task, &integration.end),
            // It lost the turn with its lease. With its next turn, it finds the same result.
            Step::Repeat | Step::Verify => {
                self.requeued.push(task.id);
                self.tasks.insert(task.id, task);
            }
            _ => {
                let state = match judgement.outcome {
                    Outcome::Conflict => IntegrationState::Conflict,
                    Outcome::Failed => IntegrationState::GateFailed,
                    Outcome::Void => IntegrationState::Withdrawn,
                    _ => IntegrationState::Failed,
                };
                self.closed.push(ClosedIntegration {
                    collision: collision(&integration.end),
                    gate_signature,
                    ..ClosedIntegration::without_landing(task.id, state)
                });
                self.did_not_land(dispatch, task, &judgement);
            }
        }
    }

    pub(super) fn landed_in_turn(&mut self, task: TaskId, commit: &str, empty: bool) {
        self.closed.push(ClosedIntegration {
            landed: Some(commit.to_owned()),
            empty,
            ..ClosedIntegration::without_landing(task, IntegrationState::Merged)
        });
    }

    fn did_not_land(&mut self, dispatch: &Dispatch, task: Task, judgement: &Judgement) {
        if judgement.outcome == Outcome::Failed {
            let reason = judgement.reason.as_deref().unwrap_or(REFUSED);
            let source = self.source(dispatch);
            self.captured.refusal(&source, ErrorCategory::TestFailure, reason);
            self.uncount_success(dispatch);
        }
        if judgement.step == Step::Ask {
            self.needs_path_approval(task, judgement);
        } else if judgement.outcome == Outcome::Error {
            self.needs_person_to_land(task, judgement);
        } else {
            self.retry(task, dispatch, judgement, true);
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

    /// An attempt that its agent considered done was refused.
    pub(super) fn uncount_success(&mut self, dispatch: &Dispatch) {
        self.spent.entry(dispatch.run).or_default().succeeded -= 1;
    }

    pub(super) fn spend(&mut self, dispatch: &Dispatch, session: &SessionReport, counted: bool, done: bool) {
        let spent = self.spent.entry(dispatch.run).or_default();
        spent.iterations += i32::from(counted);
        spent.succeeded += i32::from(counted && done);
        self.count(dispatch, used(dispatch, session));
    }

    /// Adds a dispatch's usage to its run, without the part that was counted before.
    pub(super) fn count(&mut self, dispatch: &Dispatch, used: Usage) {
        let before = match dispatch.state {
            DispatchState::Live => Usage::default(),
            _ => dispatch.used,
        };
        self.spent.entry(dispatch.run).or_default().more(&before, &used);
    }
}

/// The subject of a conflict. Trailers come from the repository, so only whole ids are taken.
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
