//! Reports that arrive after the end of their dispatch: their usage and pushed work is kept.

use ralph_shared::kind::SessionKind;
use ralph_shared::wire::Finished;

use super::batch::Batch;
use super::incoming::Incoming;
use super::record::end;
use crate::domain::failure::Failure;
use crate::domain::outcome::{Judgement, Step};
use crate::domain::states::{Outcome, TaskState};
use crate::store::dispatch::{Dispatch, DispatchState};

impl Batch {
    /// Takes a further report of a dispatch that is over. Its only news can be that the work was pushed
    /// since. If no attempt started meanwhile, the next one starts from that work.
    pub(super) fn pushed_late(&mut self, dispatch: &Dispatch, one: &Incoming) {
        let Finished::Session(session) = &one.report.finished else {
            return;
        };
        if !session.snapshot.strays.is_empty() {
            self.late_orphans
                .push((dispatch.id, session.snapshot.strays.clone()));
        }
        let (Some(commit), Some(pushed_ref)) = (&session.snapshot.commit, &session.snapshot.pushed_ref)
        else {
            return;
        };
        if dispatch.pushed {
            return;
        }
        self.pushed_late
            .push((dispatch.id, commit.clone(), pushed_ref.clone()));
        let Some(task) = self.tasks.get_mut(&dispatch.task) else {
            return;
        };
        let waits = matches!(
            task.state,
            TaskState::Pending | TaskState::NeedsReview | TaskState::Failed
        );
        let goes_on = waits && task.dispatch == Some(dispatch.id) && dispatch.state == DispatchState::Settled;
        // The same rule as for a report in time.
        let is_idle = dispatch.kind == SessionKind::Review && session.snapshot.files_changed_count == 0;
        if goes_on
            && dispatch.kind.changes_files()
            && !(is_idle && task.start_commit.is_none())
            && dispatch.outcome != Some(Outcome::Failed)
        {
            task.start_commit = Some(commit.clone());
            task.start_ref = Some(pushed_ref.clone());
            self.changed.insert(task.id);
        }
    }

    /// Takes a report after the fence moved: keeps its usage and branch.
    pub(super) fn supersede(&mut self, dispatch: &Dispatch, one: &Incoming) {
        match &one.report.finished {
            Finished::Session(report) => self.spend(dispatch, report, false, false),
            Finished::Integration(_) => self.count(dispatch, dispatch.used.settled()),
        }
        let (failure, reason) = match dispatch.state {
            DispatchState::Superseded => (
                Failure::Interrupted,
                "the task was taken away before the report arrived",
            ),
            _ => (
                Failure::TakenAway,
                "the report arrived after the task had been claimed again",
            ),
        };
        let judgement = Judgement::failed(failure, Step::Retry, reason);
        self.ends.push(end(
            dispatch,
            DispatchState::Superseded,
            &judgement,
            &one.report,
            None,
            0,
        ));
    }
}
