//! Tasks for people: a table, and a page for one task.

use ralph_api::view::{DispatchView, QuestionView, TaskDetail, TaskRef, TaskView};
use ralph_domain::failure::Failure;
use ralph_shared::terminal::{Paint, Tone, counted, tame};
use ralph_shared::wire::{OrphanRef, TestChange};

use crate::cost::format;
use crate::terminal::color::tone_of;
use crate::terminal::condition;
use crate::terminal::duration::show_ms;
use crate::terminal::gate_times;
use crate::terminal::local_time::{ago, when};
use crate::terminal::table::Table;

pub fn table(tasks: &[TaskView], wide: bool) -> Table {
    let mut heads = vec!["TASK", "ID", "STATUS", "ATTEMPT", "NOW"];
    if wide {
        heads.extend(["FEATURE", "PARENT", "PRIORITY", "POOL", "VERIFIED", "REASON"]);
    }
    heads.push("TITLE");
    let mut table = Table::new(heads, "no tasks");
    for task in tasks {
        let now = match &task.session {
            Some(session) => format!("{} on {}", session.kind, session.worker),
            None => waits(task).unwrap_or_default(),
        };
        let mut row = vec![
            task.handle(),
            task.id.clone(),
            task.status.into_str().to_owned(),
            task.attempt.to_string(),
            now,
        ];
        if wide {
            let verified = serde_json::to_value(task.verification_status).unwrap_or_default();
            row.extend([
                task.feature.clone(),
                task.parent.clone().unwrap_or_default(),
                task.priority.to_string(),
                task.pool.clone(),
                verified.as_str().unwrap_or_default().to_owned(),
                task.reason.clone().unwrap_or_default(),
            ]);
        }
        row.push(task.title.clone());
        table.row(row);
    }
    table
}

/// Why a task isn't running now, and until when.
pub(crate) fn waits(task: &TaskView) -> Option<String> {
    let words = task.waits.as_deref()?;
    Some(condition::until(&tame(words), task.waits_until))
}

pub fn page(detail: &TaskDetail) -> String {
    let task = &detail.task;
    let paint = Paint::stdout();
    let status = |word: &str| paint.apply(tone_of(word), word);
    let mut lines = vec![format!(
        "{} {} {}: {}",
        task.handle(),
        task.id,
        tame(&task.title),
        status(task.status.into_str())
    )];
    if let Some(reason) = &task.reason {
        lines.push(format!("  reason      {}", indented(reason)));
    }
    lines.push(format!("  feature     {} ({})", task.feature_name, task.feature));
    lines.push(format!("  key         {}", task.key));
    lines.push(format!("  asks for    {}", asks(task)));
    if !task.paths.is_empty() {
        lines.push(format!("  changes     {}", tame(&task.paths.join(", "))));
    }
    if let Some(waits) = waits(task) {
        lines.push(paint.apply(Tone::Warn, &format!("  waits: {waits}")));
    }
    if let Some(commit) = &detail.landed_commit {
        lines.push(format!("  landed      {commit}"));
    }
    if let Some(parent) = &task.parent {
        lines.push(format!("  part of     {parent}"));
    }
    for (what, refs) in [
        ("waits for", &detail.blockers),
        ("frees", &detail.dependents),
        ("has part", &detail.subtasks),
    ] {
        for other in refs {
            lines.push(neighbour(what, other, paint));
        }
    }
    for dispatch in &detail.dispatches {
        lines.extend(attempt(dispatch, paint));
    }
    if !detail.description.trim().is_empty() {
        lines.push(String::new());
        lines.push(tame(detail.description.trim_end()));
    }
    lines.join("\n") + "\n"
}

/// The task's requirements, such as its pool and its agent.
fn asks(task: &TaskView) -> String {
    let asks = [
        Some(format!("pool {}", task.pool)),
        Some(format!("priority {}", task.priority)),
        task.concurrency
            .as_ref()
            .map(|key| format!("concurrency key {key}")),
        task.agent.as_ref().map(|agent| format!("agent {agent}")),
        task.model.as_ref().map(|model| format!("model {model}")),
        Some(counted(task.max_retries, "retry", "retries")),
        (!task.verify).then(|| "not verified".to_owned()),
    ];
    asks.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn neighbour(what: &str, other: &TaskRef, paint: Paint) -> String {
    let status = paint.apply(tone_of(other.status.into_str()), other.status.into_str());
    format!("  {what:11} {} {status} {}", other.id, tame(&other.title))
}

fn attempt(dispatch: &DispatchView, paint: Paint) -> Vec<String> {
    let word = match (&dispatch.outcome, dispatch.status.as_str()) {
        (_, "live") => "running",
        (Some(outcome), _) => outcome.as_str(),
        (None, other) => other,
    };
    let failure = match dispatch.failure.map(Failure::as_str) {
        Some(failure) if failure != word => format!(": {failure}"),
        _ => String::new(),
    };
    let mut lines = vec![format!(
        "  attempt {:<3} {} {} {}{failure} ({})",
        dispatch.attempt,
        ago(dispatch.started_at),
        dispatch.kind,
        paint.apply(tone_of(word), word),
        facts(dispatch)
    )];
    let journal = match dispatch.journal_doubted {
        true => "journal (it quotes what was revoked)",
        false => "journal",
    };
    let texts = [
        ("chosen for", &dispatch.model_reason),
        ("reason", &dispatch.reason),
        (journal, &dispatch.journal),
        ("feedback", &dispatch.feedback),
    ];
    for (what, text) in texts {
        if let Some(text) = text.as_ref().filter(|text| !text.trim().is_empty()) {
            lines.push(paint.apply(Tone::Dim, &format!("      {what}: {}", indented(text))));
        }
    }
    if let Some(malformed) = dispatch.malformed_sigils.filter(|n| *n > 0) {
        let line = format!("      malformed sigils, ignored: {malformed}");
        lines.push(paint.apply(Tone::Warn, &line));
    }
    for question in &dispatch.questions {
        let line = format!("      {}", indented(&question_lines(question)));
        lines.push(paint.apply(Tone::Warn, &line));
    }
    if let Some(words) = gate_times::words(&dispatch.gate_times) {
        lines.push(paint.apply(Tone::Dim, &format!("      gate: {words}")));
    }
    for test in &dispatch.test_changes {
        lines.push(paint.apply(Tone::Warn, &format!("      look at {}", weakened(test))));
    }
    if let Some(pushed) = &dispatch.pushed_ref {
        let removed = dispatch
            .pruned_at
            .map(|at| format!(" (removed {})", when(at)))
            .unwrap_or_default();
        lines.push(paint.apply(Tone::Dim, &format!("      pushed: {pushed}{removed}")));
    }
    let strays = dispatch.strays.iter();
    lines.extend(strays.map(|stray| orphan_commit_line(stray, paint)));
    lines
}

/// Worker, model, duration and cost of an attempt.
fn facts(dispatch: &DispatchView) -> String {
    let facts = [
        Some(dispatch.worker.clone()),
        match (&dispatch.model_used, &dispatch.model) {
            (Some(used), Some(chosen)) => Some(tame(&format!("{used} instead of {chosen}"))),
            (Some(model), None) | (None, Some(model)) => Some(tame(model)),
            (None, None) => None,
        },
        dispatch.duration_ms.map(show_ms),
        format::of_session(dispatch),
        dispatch
            .commit
            .as_ref()
            .map(|commit| format!("commit {}", commit.chars().take(12).collect::<String>())),
    ];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// An agent's question with its answer, if any.
fn question_lines(question: &QuestionView) -> String {
    let words = question.words();
    match (&question.answer, &question.answered_by, question.waits_until) {
        (Some(answer), Some(by), _) => format!("asked: {words}\n{by} answered: {answer}"),
        (_, _, Some(until)) => format!("asks, and waits until {}: {words}", when(until)),
        _ => format!("asked, and nobody was there: {words}"),
    }
}

/// A commit outside the attempt's branch, and its location.
fn orphan_commit_line(stray: &OrphanRef, paint: Paint) -> String {
    let (tone, place) = match (&stray.pushed_ref, &stray.error) {
        (Some(name), _) => (Tone::Dim, format!("pushed to {name}")),
        (None, error) => {
            let why = indented(error.as_deref().unwrap_or("unknown"));
            let stays = match stray.waits {
                true => "; its worker retains it and tries again",
                false => "; it was lost with the clone",
            };
            (Tone::Warn, format!("not pushed{stays}: {why}"))
        }
    };
    let commit: String = stray.commit.chars().take(12).collect();
    paint.apply(
        tone,
        &format!(
            "      also committed, {} ({commit}): {}",
            tame(&stray.what),
            tame(&place)
        ),
    )
}

/// A weakened test, with the first of its weakened lines.
pub(crate) fn weakened(test: &TestChange) -> String {
    let lines = test.lines.len() + usize::try_from(test.more).unwrap_or(usize::MAX);
    let shown = match (test.lines.first(), lines) {
        (None, _) => String::new(),
        (Some(line), 1) => format!(": {}", tame(line)),
        (Some(line), n) => format!(": {} (and {} more)", tame(line), n - 1),
    };
    format!("{}: {}{shown}", tame(&test.path), test.kind.as_str())
}

pub(crate) fn indented(text: &str) -> String {
    tame(text.trim()).replace('\n', "\n        ")
}
