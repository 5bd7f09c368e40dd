//! Joins dispatches to attempts, for prompts (SPEC 1, 6.3).

use std::collections::BTreeMap;

use crate::domain::states::Outcome;
use crate::prompt;
use crate::store::dispatch::earlier::{Earlier, FailureReport};
use ralph_shared::kind::SessionKind;

/// Joins dispatches to attempts (SPEC 1): the work with its verification and integration. Oldest first.
pub(in crate::flow) fn attempts(earlier: &[&Earlier]) -> Vec<prompt::Attempt> {
    let mut by_number: BTreeMap<i32, Vec<&Earlier>> = BTreeMap::new();
    // Checks ahead of a turn are omitted: the turn itself gives the same result.
    for one in earlier.iter().filter(|one| one.kind != SessionKind::Check) {
        by_number.entry(one.attempt).or_default().push(one);
    }
    let mut joined: Vec<prompt::Attempt> = Vec::new();
    let mut failed: BTreeMap<&str, i32> = BTreeMap::new();
    for dispatches in by_number.values() {
        let Some(mut attempt) = attempt(dispatches) else {
            continue;
        };
        let signature = dispatches
            .iter()
            .rev()
            .find_map(|d| d.failure_signature.as_deref());
        if let Some(signature) = signature {
            attempt.same_as = failed.insert(signature, attempt.number);
        }
        joined.push(attempt);
    }
    joined
}

fn attempt(dispatches: &[&Earlier]) -> Option<prompt::Attempt> {
    let work = dispatches.iter().rev().find(|d| d.kind.begins_attempt())?;
    // A failed start is no attempt (SPEC 7.3), unless a person gave feedback on it.
    if work.outcome == Outcome::Unavailable && work.feedback.is_none() {
        return None;
    }
    // Of repeated verifications and integrations, only the last one counts.
    let last = |kind: SessionKind| {
        let judges = dispatches.iter().rev().filter(move |d| d.kind == kind);
        judges
            .filter(|d| {
                !matches!(
                    d.outcome,
                    Outcome::Lost | Outcome::Unavailable | Outcome::Interrupted
                )
            })
            .take(1)
    };
    let against = last(SessionKind::Integrate)
        .chain(last(SessionKind::Verify))
        .find(|d| {
            matches!(
                d.outcome,
                Outcome::Failed | Outcome::Conflict | Outcome::NoSigil | Outcome::Error
            )
        });
    let (outcome, reason) = match against {
        Some(judge) if judge.kind == SessionKind::Verify => ("failed verification", judge.reason.clone()),
        Some(judge) if judge.outcome == Outcome::Conflict => ("conflict", judge.reason.clone()),
        Some(judge) => ("failed integration", judge.reason.clone()),
        // The agent's report, or the extracted one, says more.
        None if work.report.is_some() => (work.outcome.as_str(), None),
        None => (work.outcome.as_str(), work.reason.clone()),
    };
    Some(prompt::Attempt {
        number: work.attempt,
        model: work.model.clone(),
        outcome: outcome.to_owned(),
        was_tried: !matches!(
            work.outcome,
            Outcome::Lost | Outcome::Interrupted | Outcome::Unavailable
        ),
        ended_at: work.ended_at,
        report: work.report.as_ref().map(report),
        reason,
        verified: against.is_some_and(|judge| judge.kind == SessionKind::Verify),
        feedback: work.feedback.clone(),
        same_as: None,
        branch: work.pushed_ref.as_deref().map(branch_name),
        strays: work.stray_refs.iter().map(|name| branch_name(name)).collect(),
    })
}

fn branch_name(whole: &str) -> String {
    whole.strip_prefix("refs/heads/").unwrap_or(whole).to_owned()
}

fn report(report: &FailureReport) -> prompt::Report {
    prompt::Report {
        extracted: report.extracted,
        tried: report.what_tried.clone(),
        why: report.why_failed.clone(),
        category: report.category.to_string(),
        files: report.relevant_files.clone(),
        error: report.error_output.clone(),
        suggestion: report.retry_suggestion.clone(),
    }
}
