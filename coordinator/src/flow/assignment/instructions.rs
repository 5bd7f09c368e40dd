//! The order for a worker: workspace, limits, model and work of a dispatch.

use std::collections::BTreeMap;

use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{
    Access, Assignment, Decided, DirOrder, GitOperation, GitOperationOrder, GitOrder, IntegrateOrder,
    ModelChoice, Repository, SessionLimits, SessionOrder, Text, WRITES, Work, WorkspaceOrder,
};

use super::facts::DispatchContext;
use crate::domain::routing::strategy::Choice;
use crate::domain::trace;
use crate::flow::{Settings, memory::repo_scan};
use crate::prompt;
use crate::store::git::integration::{Integration, RefNames};

impl DispatchContext<'_> {
    pub(super) fn session_order(&self, prompt: Text) -> SessionOrder {
        let Self { facts, task, run, .. } = *self;
        let (settings, dispatch) = (self.settings, self.dispatch);
        let positive = |n: i64| u64::try_from(n).unwrap_or(0);
        SessionOrder {
            prompt,
            context: BTreeMap::new(),
            after_exit: Some(prompt::after_exit(&settings.templates)).filter(|text| !text.is_empty()),
            agent: dispatch.agent.clone(),
            model: dispatch
                .model
                .as_ref()
                .map(|choice| model_choice(settings, choice)),
            limits: SessionLimits {
                session_ms: positive(run.settings.session_ms),
                idle_ms: positive(run.settings.idle_ms),
                output_bytes: positive(run.settings.output_bytes),
                grace_ms: settings.grace.as_millis() as u64,
                ..SessionLimits::default()
            },
            share: dispatch.share,
            prices: settings.prices.clone(),
            access: match dispatch.kind {
                // There is no clone whose build products could be thrown away.
                SessionKind::Verify if task.dir.is_some() => Access::ReadOnly,
                SessionKind::Verify => Access::Commands,
                kind if kind.changes_files() => Access::Workspace,
                _ => Access::ReadOnly,
            },
            iteration: u32::try_from(run.iterations + 1).unwrap_or(1),
            total: u32::try_from(run.settings.max_iterations.unwrap_or(task.feature_tasks)).unwrap_or(0),
            survey: (dispatch.kind == SessionKind::Work && repo_scan::starts_at_head(task))
                .then(|| facts.repo_scans.get(&task.feature.0).cloned())
                .flatten(),
            traceparent: settings.tracer.is_some().then(|| {
                trace::Parent::of_session(task.task, dispatch.attempt, dispatch.dispatch).to_string()
            }),
        }
    }

    pub(super) fn integrate_order(&self, integration: &Integration) -> IntegrateOrder {
        let Self { facts, task, run, .. } = *self;
        let Self { dispatch, .. } = *self;
        let operation = facts.operations.get(&dispatch.task);
        let known = facts.known.get(&dispatch.task).cloned().unwrap_or_default();
        let is_ahead = dispatch.kind == SessionKind::Check;
        let resume = match (&integration.old, &integration.new, &integration.new_ref) {
            (Some(old), Some(new), Some(new_ref)) => Some(Decided {
                old: old.clone(),
                new: new.clone(),
                new_ref: new_ref.clone(),
            }),
            _ => None,
        };
        IntegrateOrder {
            commit: integration.source_commit.clone(),
            subject: task.title.clone(),
            body: format!("Attempt {} of task {}.", dispatch.attempt, task.task),
            after_conflict: task.conflicted,
            brings: match operation {
                Some(GitOperation::Update { brings, .. }) => brings.clone(),
                _ => None,
            },
            brings_ref: match operation {
                Some(GitOperation::Update { branch, .. }) => Some(format!("refs/heads/{branch}")),
                _ => None,
            },
            gate: run.settings.gate.clone(),
            steps: run.settings.gate_steps.clone(),
            protect: match integration.approved {
                true => Vec::new(),
                false => run.settings.protect.clone(),
            },
            judged: integration.judged,
            ahead: is_ahead.then_some(known.ahead),
            passed: known.passed,
            failed: known.failed.filter(|_| !is_ahead),
            retries: u32::try_from(run.settings.gate_retries).unwrap_or(0),
            resume,
        }
    }

    pub(super) fn operation_order(&self, operation: &GitOperation) -> GitOperationOrder {
        let Self { facts, task, run, .. } = *self;
        let feature = &task.feature_name;
        let branch = task.branch.as_deref().unwrap_or_default();
        let (subject, body) = match operation {
            GitOperation::Update { branch: base, .. } => {
                (format!("Merge {base} into {branch}"), String::new())
            }
            GitOperation::Revert { task: of, commit, .. } => (
                task.title.clone(),
                format!("Takes back {commit}, which landed {of}."),
            ),
            GitOperation::Merge { .. } => {
                let titles = facts.landed.get(&task.feature).map_or(&[][..], Vec::as_slice);
                let lines: Vec<_> = titles.iter().map(|title| format!("- {title}")).collect();
                let description = task.feature_description.trim();
                let parts = [description.to_owned(), lines.join("\n")];
                let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                (format!("Merge feature {feature}"), parts.join("\n\n"))
            }
            GitOperation::Check { .. } => (task.title.clone(), String::new()),
        };
        GitOperationOrder {
            operation: operation.clone(),
            subject,
            body,
            gate: match operation {
                GitOperation::Check { gate, .. } => gate.clone(),
                _ => run.settings.gate.clone(),
            },
            steps: match operation {
                // The run's gate may have changed.
                GitOperation::Check { gate, .. } if *gate != run.settings.gate => Vec::new(),
                _ => run.settings.gate_steps.clone(),
            },
            passed: facts
                .known
                .get(&task.task)
                .map_or_else(Vec::new, |known| known.passed.clone()),
        }
    }

    pub(super) fn assignment(&self, work: Work) -> Assignment {
        let Self { task, .. } = *self;
        let (settings, dispatch) = (self.settings, self.dispatch);
        Assignment {
            v: WRITES,
            dispatch: dispatch.dispatch,
            kind: dispatch.kind,
            feature: task.feature,
            feature_name: task.feature_name.clone(),
            run: dispatch.run,
            task: task.task,
            task_title: task.title.clone(),
            attempt: u32::try_from(dispatch.attempt).unwrap_or(0),
            workspace: self.workspace(&work),
            work,
            lease_ms: settings.lease.as_millis() as u64,
        }
    }

    fn workspace(&self, work: &Work) -> WorkspaceOrder {
        let Self { facts, task, run, .. } = *self;
        let (settings, dispatch) = (self.settings, self.dispatch);
        let (Some(address), Some(base), Some(branch)) = (&task.repo_address, &task.base_commit, &task.branch)
        else {
            return match &task.dir {
                Some(path) => WorkspaceOrder::Dir(DirOrder { path: path.clone() }),
                None => WorkspaceOrder::Scratch,
            };
        };
        let start = match (work, facts.integrations.get(&dispatch.task)) {
            (Work::Integrate(_), Some(i)) => Some((i.source_commit.clone(), i.source_ref.clone())),
            _ => task.start_commit.clone().zip(task.start_ref.clone()),
        };
        let (start, start_ref) = start.unzip();
        WorkspaceOrder::Git(GitOrder {
            repository: Repository {
                address: address.clone(),
            },
            feature_branch: branch.clone(),
            base: base.clone(),
            landed: task.landed.clone().map(Box::new),
            start,
            start_ref,
            gate: run.settings.gate.clone(),
            cold: run.settings.cold,
            onto_head: dispatch.kind.changes_files() && facts.conflicts.contains_key(&task.task),
            attempt_ref: RefNames::new(&task.feature_name, task.task).attempt_ref(
                settings.attempts,
                dispatch.attempt,
                dispatch.dispatch,
            ),
            trailers: self.trailers(),
        })
    }

    fn trailers(&self) -> BTreeMap<String, String> {
        let Self { facts, task, run, .. } = *self;
        let Self { dispatch, .. } = *self;
        let mut trailers = BTreeMap::from([
            ("Ralph-Task".to_owned(), task.task.to_string()),
            ("Ralph-Attempt".to_owned(), dispatch.attempt.to_string()),
            ("Ralph-Run".to_owned(), run.id.to_string()),
        ]);
        // A landing names the model of its attempt.
        let of_attempt = facts.integrations.get(&dispatch.task);
        let of_attempt = of_attempt.and_then(|integration| integration.model.clone());
        let model = match dispatch.kind {
            SessionKind::Integrate => of_attempt,
            _ => dispatch.model.as_ref().map(|choice| choice.model.clone()),
        };
        trailers.extend(model.map(|model| ("Ralph-Model".to_owned(), model)));
        if dispatch.kind == SessionKind::Integrate
            && let Some(GitOperation::Revert { task, .. }) = facts.operations.get(&task.task)
        {
            trailers.insert("Ralph-Reverts".to_owned(), task.to_string());
        }
        trailers
    }
}

fn model_choice(settings: &Settings, choice: &Choice) -> ModelChoice {
    let mut names = vec![choice.model.clone()];
    names.extend(
        settings
            .tiers
            .get(&choice.model)
            .map(|tier| tier.names.clone())
            .unwrap_or_default(),
    );
    names.dedup();
    ModelChoice {
        tier: choice.model.clone(),
        names,
        by_default: settings.tiers.names_by_default(&choice.model),
    }
}
