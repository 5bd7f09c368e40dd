//! Progress as plain lines, where nobody watches a bar: one whenever something but the clock changed.

use crate::cli::paint::tame;
use crate::store::view::Progress;

/// Sessions that a line names.
const NAMED: usize = 4;

/// What was shown last.
#[derive(Debug, Default)]
pub struct Lines(Option<String>);

impl Lines {
    /// Prints a line, unless it would say the same as the one before.
    pub fn show(&mut self, progress: &Progress) {
        let line = line(progress);
        if self.0.as_ref() != Some(&line) {
            eprintln!("{line}");
            self.0 = Some(line);
        }
    }
}

fn line(progress: &Progress) -> String {
    let feature = &progress.feature;
    let tasks = &feature.tasks;
    let mut parts = vec![format!("{}/{} done", tasks.resolved(), tasks.total)];
    let counted = [
        (tasks.in_progress, "running"),
        (tasks.failed, "failed"),
        (tasks.needs_review, "need a person"),
    ];
    parts.extend(
        counted
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}")),
    );
    let mut line = format!(
        "{} {}: {}",
        feature.name,
        feature.status.as_str(),
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
