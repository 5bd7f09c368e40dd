//! The row of a finished dispatch: the outcome of the iteration and its journal entry.

use ralph_shared::wire::{Change, Ended, Finished, IntegrationEnd, Report, SessionReport, Usage};

use crate::domain::budget::bounded;
use crate::domain::failure::Counts;
use crate::domain::failure::signature::signature;
use crate::domain::outcome::{Judgement, Step};
use crate::domain::text::leftover_files;
use crate::store::dispatch::{Dispatch, DispatchState, End};

/// Total usage of a session: the greater of the running totals and the report's.
pub(super) fn used(dispatch: &Dispatch, session: &SessionReport) -> Usage {
    dispatch.used.max(bounded(session.usage)).settled()
}

/// The stored part of a change: its diff for a verification only.
fn stored_change(change: Change, step: Step) -> Option<Change> {
    match step {
        Step::Verify => Some(change),
        _ if change.tests.is_empty() => None,
        _ => Some(Change {
            diff: String::new(),
            diff_cut: true,
            ..change
        }),
    }
}

/// The signature that recognises the same failure again, when the failure counts. An attempt with changes
/// continues, so it has none.
fn signature_of(judgement: &Judgement, report: &Report) -> Option<String> {
    let failure = judgement.failure?;
    let mut text = judgement.reason.clone().unwrap_or_default();
    let session = match &report.finished {
        Finished::Session(session) => Some(session),
        Finished::Integration(_) => None,
    };
    let counts = match failure.policy().counts {
        Counts::Failure => true,
        Counts::Unfinished => session.is_none_or(|session| session.snapshot.files_changed_count == 0),
        _ => false,
    };
    if let Some(session) = session.filter(|session| !session.ended.is_in_order()) {
        text = format!("{text}\n{}", session.stderr_tail);
    }
    counts.then(|| signature(failure.as_str(), &text))
}

/// The end of a dispatch, as its row stores it.
pub(super) fn end(
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
        failure: judgement.failure,
        failure_signature: signature_of(judgement, report),
        reason: judgement.reason.clone(),
        journal,
        commit: None,
        pushed_ref: None,
        files_changed: Vec::new(),
        stop_reason: None,
        agent: None,
        duration_ms: i64::try_from(report.duration_ms).unwrap_or(i64::MAX),
        used: dispatch.used.settled(),
        tool_calls: 0,
        malformed_sigils: i32::try_from(malformed).unwrap_or(i32::MAX),
        iteration: None,
        difficulty: None,
        change: None,
        strays: Vec::new(),
        model_used: None,
        gate_times: Vec::new(),
    };
    match &report.finished {
        Finished::Session(session) => {
            add_session(&mut end, dispatch, session, judgement.step);
            if let Some(left) = &session.snapshot.left {
                let words = leftover_files::words(left, &report.worker);
                end.reason = Some(match end.reason.take() {
                    Some(reason) => format!("{reason}\n{words}"),
                    None => words,
                });
            }
        }
        Finished::Integration(integration) => {
            end.gate_times.clone_from(&integration.steps);
            match &integration.end {
                IntegrationEnd::Merged { commit, .. } | IntegrationEnd::Delivered { commit, .. } => {
                    end.commit = Some(commit.clone());
                }
                IntegrationEnd::Rewritten { commit, commit_ref } => {
                    end.commit = Some(commit.clone());
                    end.pushed_ref = Some(commit_ref.clone());
                }
                _ => {}
            }
        }
    }
    end
}

fn add_session(end: &mut End, dispatch: &Dispatch, session: &SessionReport, step: Step) {
    let snapshot = &session.snapshot;
    end.commit = snapshot.commit.clone();
    end.pushed_ref = snapshot.pushed_ref.clone();
    end.strays = snapshot.strays.clone();
    end.files_changed = snapshot.files_changed.clone();
    let change = snapshot.change.clone();
    end.change = change.and_then(|change| stored_change(change, step));
    end.stop_reason = match &session.ended {
        Ended::Turn { stop_reason } => Some(stop_reason.clone()),
        _ => None,
    };
    let agent = &session.agent;
    end.agent = agent.name.clone().or_else(|| Some(agent.configured.clone()));
    let chosen = dispatch.model.as_deref().map(str::to_lowercase);
    // Agents may report a longer name of the chosen model.
    let is_another = |used: &String| {
        chosen
            .as_ref()
            .is_none_or(|chosen| !used.to_lowercase().contains(chosen))
    };
    end.model_used = agent.model.clone().filter(is_another);
    end.used = used(dispatch, session);
    end.tool_calls = i32::try_from(session.tool_calls).unwrap_or(i32::MAX);
}
