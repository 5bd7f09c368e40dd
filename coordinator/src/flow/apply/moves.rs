//! Applies a judgement to a task: its next state, its next dispatch, its counted failures.

use std::time::Duration;

use ralph_shared::kind::SessionKind;
use ralph_shared::wire::IntegrationEnd;

use super::super::cascade;
use super::batch::Batch;
use crate::domain::failure::retry::{self, NextStep, Trouble};
use crate::domain::failure::{Counts, Failure};
use crate::domain::outcome::{Judgement, Step};
use crate::domain::run::Run;
use crate::domain::states::{Outcome, TaskState, Verification};
use crate::domain::steps;
use crate::store::dispatch::{Dispatch, DispatchState};
use crate::store::feature::Text;
use crate::store::git::integration::{ClosedIntegration, IntegrationState};
use crate::store::task::Task;

/// Longest stored reason for a person. Bytes.
const REASON_BYTES: usize = 8 * 1024;

impl Batch {
    pub(super) fn move_to(&mut self, task: &mut Task, to: TaskState) {
        cascade::moved(&mut self.features, task.feature, task.state, to);
        task.state = to;
    }

    pub(super) fn verify(&mut self, mut task: Task) {
        self.move_to(&mut task, TaskState::InProgress);
        task.next_kind = Some(SessionKind::Verify);
        task.verification = Verification::Pending;
        task.verify_tries = 0;
        self.enqueue.push((task.id, Duration::ZERO));
        self.tasks.insert(task.id, task);
    }

    /// Verifies an attempt again whose rebase made another patch, before anything else of the feature lands.
    pub(super) fn verify_in_turn(&mut self, mut task: Task, end: &IntegrationEnd) {
        if let IntegrationEnd::Rewritten { commit, commit_ref } = end {
            self.judged_again
                .push((task.id, commit.clone(), commit_ref.clone()));
            task.start_commit = Some(commit.clone());
            task.start_ref = Some(commit_ref.clone());
        }
        self.verify(task);
    }

    /// Handles the end of a verification within a turn: the attempt keeps the turn to land or to be verified
    /// again, else gives it up.
    pub(super) fn verified_in_turn(&mut self, task: &Task, judgement: &Judgement) {
        if !self.integrations.contains_key(&task.id) {
            return;
        }
        self.turns.insert(task.feature);
        match judgement.step {
            Step::Land | Step::Repeat => self.turn_kept.push(task.id.0),
            _ => self.give_up_turn(task),
        }
    }

    fn give_up_turn(&mut self, task: &Task) {
        if self.integrations.contains_key(&task.id) {
            let refused = IntegrationState::GateFailed;
            self.closed
                .push(ClosedIntegration::without_landing(task.id, refused));
        }
    }

    /// The next step of an attempt that its agent considers done.
    pub(super) fn continue_attempt(&mut self, task: Task, step: Step) {
        let has_repository = self.features.get(&task.feature).is_some_and(|f| f.has_repository);
        match step {
            Step::Verify => self.verify(task),
            Step::Land if has_repository => self.queue_integration(task),
            _ => self.land(task),
        }
    }

    /// Whether a person approves the result of this task's sessions before the next step.
    pub(super) fn is_approved_by_a_person(&self, task: &Task) -> bool {
        self.features
            .get(&task.feature)
            .is_some_and(|f| f.approve.contains(&task.role))
    }

    /// Stores a text of the feature.
    pub(super) fn store_text(&mut self, task: Task, document: &str) {
        let which = if task.role == SessionKind::Plan {
            Text::Plan
        } else {
            Text::Spec
        };
        self.written
            .push((task.feature, which, Some(document.to_owned())));
        if self.is_approved_by_a_person(&task) {
            self.ask_for_approval(task);
        } else {
            self.land(task);
        }
    }

    pub(super) fn ask_for_approval(&mut self, task: Task) {
        let feature = self.features.get(&task.feature).map_or("", |f| f.name.as_str());
        let reason = steps::waits_for_approval(task.role, feature, task.id);
        self.ask_person(task, reason);
    }

    pub(super) fn repeat_verify(&mut self, mut task: Task, dispatch: &Dispatch, judgement: &Judgement) {
        if judgement.outcome == Outcome::Lost && task.state == TaskState::NeedsReview {
            // The lapsed lease has already called a person.
            self.tasks.insert(task.id, task);
            return;
        }
        self.move_to(&mut task, TaskState::InProgress);
        task.next_kind = Some(SessionKind::Verify);
        let failure = counted(dispatch, judgement);
        let next = self.decide(&mut task, failure, false);
        if failure.policy().counts == Counts::Verification {
            task.verify_tries += 1;
        }
        match next {
            NextStep::Again(delay) => {
                self.enqueue.push((task.id, delay));
                self.tasks.insert(task.id, task);
            }
            NextStep::NeedsReview => {
                let reason = retry::without_tries(failure, judgement.reason.as_deref());
                self.give_up_turn(&task);
                let prefix = if judgement.is_away() {
                    "it could not be verified: "
                } else {
                    ""
                };
                self.needs_person(task, format!("{prefix}{reason}"));
            }
        }
    }

    /// Decides what follows a failure, counted with earlier ones.
    pub(super) fn decide(&self, task: &mut Task, failure: Failure, with_changes: bool) -> NextStep {
        let facts = retry::Facts {
            with_changes,
            max_retries: task.max_retries,
            base: backoff(self.current_run(task)),
            jitter: rand::random_range(0.0..1.0),
        };
        let (next, trouble) = retry::decide(failure, facts, task.trouble);
        task.trouble = trouble;
        next
    }

    pub(super) fn queue_integration(&mut self, mut task: Task) {
        self.move_to(&mut task, TaskState::InProgress);
        task.next_kind = Some(SessionKind::Integrate);
        if task.verification == Verification::Pending {
            task.verification = Verification::Passed;
        }
        if !self.integrations.contains_key(&task.id) {
            let commit = task.start_commit.clone().unwrap_or_default();
            let source_ref = task.start_ref.clone().unwrap_or_default();
            self.queued.push((task.id, task.attempt, commit, source_ref));
        }
        self.turns.insert(task.feature);
        self.tasks.insert(task.id, task);
    }

    /// Records why an attempt cannot land yet, or that it can; `away` counts earlier tries without access to
    /// the repository.
    pub(super) fn record_wait(&mut self, task: &Task, away: i32, judgement: &Judgement) {
        let waits = judgement.is_away() && judgement.step == Step::Repeat;
        let why = waits.then(|| {
            let why = judgement.reason.as_deref().unwrap_or_default();
            bounded(format!(
                "its work is pushed, and lands when its repository can be used again: {why}"
            ))
        });
        if waits || away > 0 {
            self.waiting.push((task.id, why));
        }
    }

    /// Sends an attempt that no further try can land to a person.
    pub(super) fn needs_person_to_land(&mut self, task: Task, judgement: &Judgement) {
        let why = judgement.reason.as_deref().unwrap_or_default();
        let mut reason = bounded(format!(
            "its work is pushed, but cannot land on the branch: {why}"
        ));
        if judgement.is_away() {
            reason.push_str(&format!(
                "\nOnce that is fixed, `task approve {}` lands it",
                task.id
            ));
        }
        self.needs_person(task, reason);
    }

    /// Sends an attempt to a person who must approve its paths.
    pub(super) fn needs_path_approval(&mut self, task: Task, judgement: &Judgement) {
        let why = judgement.reason.as_deref().unwrap_or_default();
        let reason = format!(
            "its work passed, but {why}\nRead it with `task diff {0}`, land it with `task approve {0}`, or send it back with `task \
             reject {0} --reason TEXT`",
            task.id
        );
        self.ask_person(task, reason);
    }

    pub(super) fn land(&mut self, mut task: Task) {
        self.move_to(&mut task, TaskState::Done);
        // Clears the reason of an earlier failure or request for a person; a task that landed at once has
        // none.
        if task.attempt > 1 || task.trouble != Trouble::default() {
            self.explained.push((task.id, None));
        }
        task.trouble = Trouble::default();
        task.next_kind = Some(task.role);
        // In a user's folder, verified work needs no integration.
        if task.verification == Verification::Pending {
            task.verification = Verification::Passed;
        }
        self.landed.push(task.id);
        if task.role == SessionKind::Review {
            self.reviewed.push(task.id);
        }
        if task.role == SessionKind::Git {
            self.operated.push(task.id);
        }
        self.tasks.insert(task.id, task);
    }

    pub(super) fn retry(
        &mut self,
        mut task: Task,
        dispatch: &Dispatch,
        judgement: &Judgement,
        with_changes: bool,
    ) {
        if judgement.outcome == Outcome::Lost && task.state == TaskState::NeedsReview {
            // The lapsed lease has already called a person.
            self.tasks.insert(task.id, task);
            return;
        }
        let failure = counted(dispatch, judgement);
        let next = self.decide(&mut task, failure, with_changes);
        let judged = matches!(dispatch.kind, SessionKind::Verify | SessionKind::Integrate);
        if task.role == SessionKind::Review && judged && judgement.outcome == Outcome::Failed {
            // The corrections were refused: the next attempt would land the same commit without a change of
            // its own.
            task.start_commit = None;
            task.start_ref = None;
        }
        // The agent that resolves a conflict continues with its resolution.
        let goes_on =
            task.role == SessionKind::Git && dispatch.kind != SessionKind::Git && task.start_commit.is_some();
        task.next_kind = Some(if goes_on { SessionKind::Work } else { task.role });
        self.retry_or_needs_person(task, next, || {
            retry::without_tries(failure, judgement.reason.as_deref())
        });
    }

    /// What follows an attempt without a result; `why` is for the person who decides.
    pub(super) fn retry_or_needs_person(
        &mut self,
        mut task: Task,
        next: NextStep,
        why: impl FnOnce() -> String,
    ) {
        match next {
            NextStep::Again(delay) => {
                let waiting = task.waiting();
                self.move_to(&mut task, waiting);
                self.enqueue.push((task.id, delay));
                self.tasks.insert(task.id, task);
            }
            NextStep::NeedsReview => self.needs_person(task, why()),
        }
    }

    /// Only a person can move this task on. It waits for one, or fails for good when the run has no review.
    pub(super) fn needs_person(&mut self, mut task: Task, reason: String) {
        let review = self.current_run(&task).is_none_or(|run| run.settings.review);
        // Without a check nothing lands, and only a person can allow it.
        let review = review || task.role == SessionKind::Check;
        if retry::without_attempts(review) == TaskState::NeedsReview {
            return self.ask_person(task, reason);
        }
        self.move_to(&mut task, TaskState::Failed);
        task.next_kind = Some(task.role);
        self.failed.push((task.feature, task.id, bounded(reason)));
        self.tasks.insert(task.id, task);
    }

    /// Asks a person, whether the run has a review or not.
    pub(super) fn ask_person(&mut self, mut task: Task, reason: String) {
        self.move_to(&mut task, TaskState::NeedsReview);
        task.next_kind = Some(task.role);
        self.explained.push((task.id, Some(bounded(reason))));
        self.tasks.insert(task.id, task);
    }

    fn current_run(&self, task: &Task) -> Option<&Run> {
        let run = self.features.get(&task.feature)?.current_run?;
        self.runs.get(&run)
    }
}

fn bounded(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(REASON_BYTES));
    reason
}

/// The pause after a task's first failure.
fn backoff(run: Option<&Run>) -> Duration {
    let ms = run.map_or(0, |run| run.settings.backoff_ms);
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// The failure that a judgement counts as. A failure that the lapsed lease has counted is not counted again.
fn counted(dispatch: &Dispatch, judgement: &Judgement) -> Failure {
    match judgement.failure.unwrap_or(Failure::Protocol) {
        Failure::WorkerDied | Failure::WorkersDied if dispatch.state != DispatchState::Live => {
            Failure::OutOfContact
        }
        failure => failure,
    }
}
