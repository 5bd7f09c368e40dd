//! Results of the gate: on the base commit, from a check, and on attempts that it refused.

use ralph_shared::wire::{FailedTree, GitOperation, IntegrationEnd, IntegrationReport, Report};
use sqlx::PgConnection;

use super::super::Signals;
use super::batch::Batch;
use super::record::end;
use crate::domain::failure::Failure;
use crate::domain::gate;
use crate::domain::outcome::{self, Judgement, Step};
use crate::domain::run::Run;
use crate::domain::train::Landing;
use crate::flow::integrate::base_gate::{GateCause, follow, forgive};
use crate::store;
use crate::store::dispatch::{Dispatch, DispatchState};
use crate::store::git::gate::Checked;
use crate::store::git::train::{CheckEnd, Ran};
use crate::store::task::Task;

impl Batch {
    pub(super) fn checked(
        &mut self,
        dispatch: &Dispatch,
        task: Task,
        report: &Report,
        integration: &IntegrationReport,
    ) {
        let judgement = outcome::check(&integration.end);
        self.ends
            .push(end(dispatch, DispatchState::Settled, &judgement, report, None, 0));
        self.turns.insert(task.feature);
        let failed = match &integration.end {
            IntegrationEnd::Checked => None,
            IntegrationEnd::GateFailed { command, output } => Some((command.clone(), output.clone())),
            _ => return self.retry(task, dispatch, &judgement, false),
        };
        let feature = self.features.get(&task.feature);
        let (repo_id, name) = feature.map_or_else(Default::default, |f| (f.repo_id.clone(), f.name.clone()));
        let Some(GitOperation::Check {
            commit,
            gate,
            because,
        }) = self.operations.get(&task.id).cloned()
        else {
            return self.needs_person(
                task,
                "the commit and the gate to check are no longer known".to_owned(),
            );
        };
        let reason = failed.as_ref().map(|(command, output)| {
            gate::fails_on_base(&name, &commit, command, output, because.as_deref())
        });
        self.checks.push((
            task.feature,
            Checked {
                repo_id,
                commit,
                gate,
                failed,
                worker: report.worker.clone(),
                duration_ms: i64::try_from(report.duration_ms).unwrap_or(i64::MAX),
            },
        ));
        match reason {
            None => self.land(task),
            Some(reason) => self.ask_person(task, reason),
        }
    }

    /// Collects the changes of a check of an attempt ahead of its turn. Only the turn lands or refuses the
    /// attempt, whatever the check's result.
    pub(super) fn checked_ahead(
        &mut self,
        dispatch: &Dispatch,
        task: Task,
        report: &Report,
        integration: &IntegrationReport,
    ) {
        let (judgement, result) = outcome::checked_ahead(&integration.end);
        self.ends
            .push(end(dispatch, DispatchState::Settled, &judgement, report, None, 0));
        self.turns.insert(task.feature);
        let in_batches = self
            .run_of(&task)
            .is_some_and(|run| run.settings.landing == Landing::Batch);
        let covered = integration.gated.as_ref().filter(|_| in_batches);
        let covered = covered.map(|gated| gated.ahead.clone()).unwrap_or_default();
        self.gate_ran(&task, report, integration, covered);
        let failed = match (&integration.end, &integration.gated) {
            (IntegrationEnd::GateFailed { command, output }, Some(gated)) => Some(FailedTree {
                tree: gated.tree.clone(),
                command: command.clone(),
                output: output.clone(),
            }),
            _ => None,
        };
        self.checked_ahead.push(CheckEnd {
            task: task.id,
            dispatch: dispatch.id,
            result,
            failed,
        });
        self.tasks.insert(task.id, task);
    }

    /// Collects the gate's result on a tree.
    pub(super) fn gate_ran(
        &mut self,
        task: &Task,
        report: &Report,
        integration: &IntegrationReport,
        covered: Vec<String>,
    ) {
        let (Some(gated), Some(run)) = (&integration.gated, self.run_of(task)) else {
            return;
        };
        let gate = run.settings.gate.clone();
        let Some(feature) = self.features.get(&task.feature) else {
            return;
        };
        self.ran.push(Ran {
            repo_id: feature.repo_id.clone(),
            gate,
            tree: gated.tree.clone(),
            covered,
            failed: match &integration.end {
                IntegrationEnd::GateFailed { command, output } => Some((command.clone(), output.clone())),
                _ => None,
            },
            failures: i32::try_from(gated.failures).unwrap_or(i32::MAX),
            worker: report.worker.clone(),
            duration_ms: i64::try_from(report.duration_ms).unwrap_or(i64::MAX),
        });
    }

    fn run_of(&self, task: &Task) -> Option<&Run> {
        let run = self.features.get(&task.feature)?.current_run?;
        self.runs.get(&run)
    }

    /// The consequence of an attempt that the gate refused: a failure, or nothing while the gate is not known
    /// to pass on the base. Returns the signature to keep, too.
    pub(super) fn refused_by_gate(
        &mut self,
        task: &Task,
        end: &IntegrationEnd,
        judgement: Judgement,
    ) -> (Judgement, Option<String>) {
        let IntegrationEnd::GateFailed { command, output } = end else {
            return (judgement, None);
        };
        let run = self
            .features
            .get(&task.feature)
            .and_then(|feature| feature.current_run);
        let may_fail = run
            .and_then(|run| self.runs.get(&run))
            .is_some_and(|run| run.settings.gate_may_fail);
        let Some(history) = self.histories.get(&task.id).filter(|_| !may_fail) else {
            return (judgement, None);
        };
        let again = |reason: String| Judgement::failed(Failure::GateUnsure, Step::Repeat, reason);
        match gate::judge(task.id, command, output, history) {
            gate::Failure::Counts(signature) => (judgement, signature),
            gate::Failure::Waits => {
                let reason =
                    "the gate failed while it was not known to pass on the base, so this failure doesn't count"
                        .to_owned();
                (again(reason), None)
            }
            gate::Failure::Environment(tasks) => {
                let doubt = gate::same_way(&tasks, command);
                let reason =
                    format!("{doubt}; the gate is tried on the base again before this failure counts");
                self.doubts.push((task.feature, doubt));
                (again(reason), None)
            }
        }
    }

    /// Writes the present knowledge about gates, and its consequences.
    pub(super) async fn write_checks(
        &mut self,
        conn: &mut PgConnection,
        signals: &mut Signals,
    ) -> sqlx::Result<()> {
        for end in &self.checked_ahead {
            store::git::train::end(conn, end).await?;
        }
        for ran in &self.ran {
            store::git::train::keep(conn, ran).await?;
        }
        for (feature, checked) in std::mem::take(&mut self.checks) {
            if checked.failed.is_some() {
                forgive(conn, &mut self.features, feature).await?;
            }
            store::git::gate::keep(conn, &checked).await?;
        }
        for (feature, doubt) in std::mem::take(&mut self.doubts) {
            tracing::warn!(%feature, doubt, "the gate is tried on the base again");
            follow(
                conn,
                &mut self.features,
                feature,
                GateCause::Doubt(doubt),
                signals,
            )
            .await?;
        }
        Ok(())
    }
}
