//! Progress as plain lines outside of a terminal: one line on each change except that of the clock.

use std::collections::BTreeSet;

use ralph_api::view::{FailureView, Progress, WaitingView};
use ralph_shared::terminal::tame;

use crate::terminal::condition;
use crate::terminal::local_time::when;
use crate::terminal::plural::done_of;

/// Sessions named in a line.
const NAMED: usize = 4;

/// The last progress shown.
#[derive(Debug, Default)]
pub struct Lines {
    line: Option<String>,
    waiting: Vec<WaitingView>,
    failures: Failures,
}

/// Failed attempts already reported.
#[derive(Debug, Default)]
pub struct Failures(BTreeSet<String>);

impl Failures {
    /// Lines for new failures.
    pub fn new_lines(&mut self, progress: &Progress) -> Vec<String> {
        let reported = &mut self.0;
        let new = progress
            .failures
            .iter()
            .filter(|failure| reported.insert(failure.id.clone()));
        new.map(failed).collect()
    }
}

/// Questions of sessions already reported.
#[derive(Debug, Default)]
pub struct Questions(BTreeSet<(String, String)>);

impl Questions {
    /// Lines for new questions, with the command that answers.
    pub fn new_lines(&mut self, progress: &Progress) -> Vec<String> {
        let reported = &mut self.0;
        let asking = progress.sessions.iter().filter_map(|session| {
            let asks = session.asks.as_ref()?;
            let line = format!("{} {} waits for your answer: {asks}", session.task, session.title);
            let command = format!("ralph task answer {}", session.task);
            reported
                .insert((session.id.clone(), asks.clone()))
                .then(|| format!("  {}\n    {command}", tame(&line).replace('\n', " ")))
        });
        asking.collect()
    }
}

/// A failed attempt with its reason, and the time of the next one.
fn failed(failure: &FailureView) -> String {
    let FailureView {
        task,
        title,
        kind,
        attempt,
        outcome,
        ..
    } = failure;
    let why = failure.reason.as_deref().unwrap_or(outcome.as_str());
    let again = failure
        .again_at
        .map(|at| format!("; tried again at {}", when(at)))
        .unwrap_or_default();
    tame(&format!(
        "  {task} {title}: attempt {attempt} ({kind}) failed: {why}{again}"
    ))
}

impl Lines {
    /// Prints new lines of progress, and new reasons why tasks wait.
    pub fn show(&mut self, progress: &Progress) {
        for line in self.new_lines(progress) {
            eprintln!("{line}");
        }
    }

    fn new_lines(&mut self, progress: &Progress) -> Vec<String> {
        let line = line(progress);
        let mut new = Vec::new();
        if self.line.as_ref() != Some(&line) {
            new.push(line.clone());
            self.line = Some(line);
        }
        new.extend(self.failures.new_lines(progress));
        let before = std::mem::replace(&mut self.waiting, progress.waiting.clone());
        let is_new = |waiting: &&WaitingView| !before.iter().any(|before| before.is_like(waiting));
        let waiting = progress.waiting.iter().filter(is_new);
        new.extend(waiting.map(|waiting| format!("  {}", tame(&waiting.to_string()))));
        new
    }
}

fn line(progress: &Progress) -> String {
    let feature = &progress.feature;
    let tasks = &feature.tasks;
    let mut parts = vec![done_of(tasks)];
    let counted = [(tasks.in_progress, "running"), (tasks.failed, "failed")];
    parts.extend(
        counted
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}")),
    );
    let mut line = format!(
        "{} {}: {}",
        feature.name,
        condition::words(&feature.condition),
        parts.join(", ")
    );
    if !progress.sessions.is_empty() {
        let mut named: Vec<String> = progress
            .sessions
            .iter()
            .take(NAMED)
            .map(|session| format!("{} {} {}", session.kind, session.task, tame(&session.title)))
            .collect();
        if progress.sessions.len() > NAMED {
            named.push(format!("{} more", progress.sessions.len() - NAMED));
        }
        line.push_str(&format!(" [{}]", named.join("; ")));
    }
    line
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn progress(waiting: Value) -> Progress {
        let counts = json!({
            "total": 2, "pending": 2, "blocked": 0, "in_progress": 0, "done": 0, "failed": 0,
            "cancelled": 0, "skipped": 0, "needs_review": 0,
        });
        let feature = json!({
            "id": "f-1", "name": "greeting", "status": "running", "condition": {"word": "running"}, "repo_id": "r", "max_parallel": 4,
            "failure_policy": "continue", "tasks": counts,
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        });
        let progress = json!({"feature": feature, "sessions": [], "attention": [], "waiting": waiting});
        serde_json::from_value(progress).unwrap()
    }

    fn waiting_for(failures: u32, second: u32) -> Value {
        let until = format!("2026-01-01T00:00:{second:02}Z");
        let door = json!({
            "agent": "default", "door": "not_found", "reason": "no such file", "failures": failures, "until": until,
        });
        let why = format!("agent default can't be started (failed {failures}), tried again at {until}");
        json!([{"pool": "default", "agent": "default", "tasks": 2, "why": why, "door": door}])
    }

    #[test]
    fn a_question_is_reported_once_with_the_command_that_answers() {
        let mut progress = progress(json!([]));
        let session = json!({
            "id": "d-1", "kind": "work", "task": "t-1", "title": "Store it", "feature": "f-1", "attempt": 1, "worker": "w", "model": null,
            "started_at": "2026-01-01T00:00:00Z", "elapsed_ms": 0, "asks": "Which \u{1b}[31mdatabase? (Postgres | SQLite)",
        });
        progress.sessions = vec![serde_json::from_value(session).unwrap()];
        let mut questions = Questions::default();
        let lines = questions.new_lines(&progress);
        let line = "  t-1 Store it waits for your answer: Which database? (Postgres | SQLite)\n    ralph task answer t-1";
        assert_eq!(lines, [line]);
        assert_eq!(questions.new_lines(&progress), Vec::<String>::new());
        progress.sessions[0].asks = Some("And where?".to_owned());
        assert_eq!(questions.new_lines(&progress).len(), 1);
    }

    #[test]
    fn the_reason_for_waiting_is_reported_when_it_changes() {
        let mut lines = Lines::default();
        let mut check = |waiting: Value, expected: &[&str]| {
            let new = lines.new_lines(&progress(waiting));
            assert_eq!(new.len(), expected.len(), "{new:?}");
            for (line, words) in new.iter().zip(expected) {
                assert!(line.contains(words), "{new:?}");
            }
        };
        let none = json!([{"pool": "gpu", "agent": null, "tasks": 1, "why": "no worker serves pool gpu"}]);
        check(
            none.clone(),
            &["greeting running", "  1 task waits: no worker serves pool gpu"],
        );
        check(none.clone(), &[]);
        check(
            waiting_for(1, 10),
            &["  2 tasks wait: agent default can't be started (failed 1)"],
        );
        // A slightly different time is no change.
        check(waiting_for(1, 11), &[]);
        check(waiting_for(2, 13), &["(failed 2)"]);
        check(json!([]), &[]);
        check(none, &["no worker"]);
    }
}
