//! Content of a report that leaves the worker: without secrets, and small enough for a message.
//!
//! A session's own text is redacted as it arrives ([`crate::session`]). This module redacts the rest: output
//! of git, setup and gate, which may contain anything.

use anyhow::Context as _;
use bytes::Bytes;
use ralph_shared::at_length::by_length;
use ralph_shared::ids::Incarnation;
use ralph_shared::wire::{
    Change, Ended, Finished, IntegrationEnd, MAX_TEXT_BYTES, OrphanRef, Report, SessionReport, Text,
};
use serde_json::Value;

use crate::instance::Instance;
use crate::session::Redactor;

/// Room for a report without its text, at first. Bytes before JSON encoding.
const REPORT_BYTES: usize = 400 * 1024;
/// Least room for a report without its text. JSON writes one byte as at most six.
const LEAST_REPORT_BYTES: usize = 16 * 1024;

/// Longest name, version or model of an agent. Bytes.
const NAME_BYTES: usize = 1_000;

/// Converts a spooled report to a message: a long text is stored in parts, and large fields are cut.
pub async fn message(instance: &Instance, spooled: &[u8]) -> anyhow::Result<Bytes> {
    let read = by_length(spooled.len(), || serde_json::from_slice(spooled));
    let mut report: Report = match read {
        Ok(report) => report,
        // Another release spooled it, so its reader has to judge it. If it stayed here, it would hold its
        // task for the whole life of this worker.
        Err(_) if spooled.len() <= instance.broker.most_bytes() => {
            return Ok(with_incarnation(
                &instance.config.name,
                instance.incarnation,
                spooled,
            ));
        }
        Err(error) => return Err(error).context("failed to read a spooled report"),
    };
    // Coordinators only accept reports from the current instance of a worker, so this one sends the earlier
    // one's reports as its own.
    if report.worker == instance.config.name {
        report.incarnation = instance.incarnation;
    }
    if let Finished::Session(session) = &mut report.finished
        && let Text::Inline(text) = &mut session.text
    {
        // A run's limit may allow a longer text. Its end tells the outcome.
        session.text_truncated |= text.len() > MAX_TEXT_BYTES;
        cut_front(text, MAX_TEXT_BYTES);
        session.text = instance.broker.put_text(std::mem::take(text)).await?;
    }
    let most = instance.broker.most_bytes();
    let mut room = REPORT_BYTES;
    loop {
        bound(&mut report, room);
        let body = serde_json::to_vec(&report)?;
        if body.len() <= most || room <= LEAST_REPORT_BYTES {
            return Ok(body.into());
        }
        room /= 4;
    }
}

/// Sets this instance's incarnation in a worker's unreadable report.
fn with_incarnation(worker: &str, incarnation: Incarnation, spooled: &[u8]) -> Bytes {
    match serde_json::from_slice::<Value>(spooled) {
        Ok(mut report) if report["worker"] == worker => {
            report["incarnation"] = Value::String(incarnation.0.to_string());
            report.to_string().into()
        }
        Ok(_) | Err(_) => Bytes::copy_from_slice(spooled),
    }
}

/// Cuts fields that could make a report too large for a message.
fn bound(report: &mut Report, room: usize) {
    let session = match &mut report.finished {
        Finished::Session(session) => session,
        Finished::Integration(integration) => {
            match &mut integration.end {
                IntegrationEnd::Conflict { paths, hunks, .. } => {
                    keep(paths, room / 4);
                    cut(hunks, room / 4);
                }
                IntegrationEnd::Unresolved { paths } | IntegrationEnd::Protected { paths } => {
                    keep(paths, room / 4)
                }
                IntegrationEnd::GateFailed { output, .. } => cut_front(output, room / 4),
                IntegrationEnd::Failed { message, .. } => cut(message, room / 16),
                _ => {}
            }
            return;
        }
    };
    keep(&mut session.snapshot.files_changed, room / 4);
    keep(&mut session.attempted, room / 8);
    keep(&mut session.questions, room / 8);
    bound_orphans(&mut session.snapshot.strays, room / 8);
    if let Some(change) = &mut session.snapshot.change {
        shorten(change, room);
    }
    if let Some(left) = &mut session.snapshot.left {
        let mut bytes = 0;
        left.named.retain(|file| {
            bytes += file.path.len() + 40;
            bytes < room / 8
        });
    }
    let agent = &mut session.agent;
    let names = [agent.name.as_mut(), agent.version.as_mut(), agent.model.as_mut()];
    names.into_iter().flatten().for_each(|name| cut(name, NAME_BYTES));
    let texts = [
        session.last_tool_error.as_mut(),
        session.snapshot.push_error.as_mut(),
        session.unread_output.as_mut(),
        Some(&mut session.stderr_tail),
    ];
    texts.into_iter().flatten().for_each(|text| cut(text, room / 16));
    if let Ended::Protocol { message }
    | Ended::Unavailable { message, .. }
    | Ended::Workspace { message, .. } = &mut session.ended
    {
        cut(message, room / 16);
    }
}

fn bound_orphans(strays: &mut Vec<OrphanRef>, room: usize) {
    let mut bytes = 0;
    strays.retain_mut(|stray| {
        if let Some(error) = &mut stray.error {
            cut(error, room / 16);
        }
        let name = stray.pushed_ref.as_ref().map_or(0, String::len);
        bytes += stray.what.len() + name + stray.error.as_ref().map_or(0, String::len) + 200;
        bytes < room
    });
}

/// Cuts a diff at its end, and drops the least severe findings in tests.
fn shorten(change: &mut Change, room: usize) {
    if change.diff.len() > room / 8 {
        cut(&mut change.diff, room / 8);
        change.diff_cut = true;
    }
    let (found, mut bytes) = (change.tests.len(), 0);
    change.tests.retain(|test| {
        bytes += test.path.len() + test.lines.iter().map(|line| line.len() + 8).sum::<usize>();
        bytes < room / 4
    });
    let gone = u32::try_from(found - change.tests.len()).unwrap_or(u32::MAX);
    change.tests_more = change.tests_more.saturating_add(gone);
}

fn keep(texts: &mut Vec<String>, room: usize) {
    let mut bytes = 0;
    texts.retain(|text| {
        bytes += text.len() + 8;
        bytes < room
    });
}

fn cut(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
    }
}

/// Cuts the beginning: the end of a command's output or a session's text matters most.
fn cut_front(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        text.drain(..text.ceil_char_boundary(text.len() - bytes));
    }
}

/// A session's texts. They were redacted on arrival with the secrets known then; a login may have new ones
/// since.
fn session_texts(session: &mut SessionReport) -> impl Iterator<Item = &mut String> {
    let text = match &mut session.text {
        Text::Inline(text) => Some(text),
        _ => None,
    };
    let single = [
        text,
        session.last_tool_error.as_mut(),
        session.unread_output.as_mut(),
        Some(&mut session.stderr_tail),
    ];
    let several = session.attempted.iter_mut().chain(&mut session.questions);
    single.into_iter().flatten().chain(several)
}

/// Removes secrets from a dispatch's result.
pub fn redacted(redactor: &Redactor, mut finished: Finished) -> Finished {
    match &mut finished {
        Finished::Session(session) => {
            if let Ended::Workspace { message, .. }
            | Ended::Protocol { message }
            | Ended::Unavailable { message, .. } = &mut session.ended
            {
                *message = redactor.words(message);
            }
            session_texts(session).for_each(|words| *words = redactor.words(words));
            if let Some(error) = &mut session.snapshot.push_error {
                *error = redactor.words(error);
            }
            for error in session
                .snapshot
                .strays
                .iter_mut()
                .filter_map(|stray| stray.error.as_mut())
            {
                *error = redactor.words(error);
            }
            for file in session.snapshot.left.iter_mut().flat_map(|left| &mut left.named) {
                file.path = redactor.text(&file.path);
            }
            let change = session.snapshot.change.take();
            session.snapshot.change = change.map(|change| redactor.change(change));
        }
        // All texts of an integration are JSON strings, and ids and commits are never secret.
        Finished::Integration(_) => {
            let bare = serde_json::to_value(&finished).map(|mut value| {
                redactor.json(&mut value);
                value
            });
            if let Ok(Ok(bare)) = bare.map(serde_json::from_value) {
                finished = bare;
            }
        }
    }
    finished
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_shared::wire::{IntegrationEnd, TestChange, TestChangeKind};

    #[test]
    fn an_earlier_instances_report_gets_the_current_incarnation() {
        let (earlier, now) = (Incarnation::new(), Incarnation::new());
        let spooled = format!(
            r#"{{"v":99,"worker":"w","incarnation":"{}","later":1}}"#,
            earlier.0
        );
        let sent: Value = serde_json::from_slice(&with_incarnation("w", now, spooled.as_bytes())).unwrap();
        assert_eq!(
            sent,
            serde_json::json!({"v": 99, "worker": "w", "incarnation": now, "later": 1})
        );
        // An earlier report under another name keeps its incarnation: only that one is known.
        assert_eq!(with_incarnation("x", now, spooled.as_bytes()), spooled.as_bytes());
        assert_eq!(with_incarnation("w", now, b"no report"), &b"no report"[..]);
    }

    #[test]
    fn a_long_change_keeps_its_beginning_and_first_findings() {
        let test = |path: &str| TestChange {
            path: path.to_owned(),
            kind: TestChangeKind::FileDeleted,
            lines: Vec::new(),
            more: 0,
        };
        let mut change = Change {
            diff: "x".repeat(100),
            tests: vec![test("first"), test(&"y".repeat(100))],
            ..Change::default()
        };
        shorten(&mut change, 400);
        assert_eq!(
            (change.diff.len(), change.diff_cut, change.tests_more),
            (50, true, 1)
        );
        assert_eq!(change.tests[0].path, "first");
    }

    #[test]
    fn a_sessions_report_contains_no_secrets() {
        let redactor = Redactor::new(["hunter2-hunter2".to_owned()]);
        let words = || "it is hunter2-hunter2".to_owned();
        let finished = Finished::Session(Box::new(SessionReport {
            text: Text::Inline(words()),
            attempted: vec![words(), words()],
            last_tool_error: Some(words()),
            unread_output: Some(words()),
            stderr_tail: words(),
            questions: vec![words()],
            ..SessionReport::new(Ended::Protocol { message: words() })
        }));
        let Finished::Session(mut report) = redacted(&redactor, finished) else {
            panic!("another kind of end");
        };
        assert_eq!(session_texts(&mut report).count(), 7);
        assert!(
            session_texts(&mut report).all(|words| words == "it is [redacted]"),
            "{report:?}"
        );
        let json = serde_json::to_string(&report).unwrap();
        assert!(!json.contains("hunter2"), "{json}");
    }

    #[test]
    fn a_gates_output_contains_no_secrets() {
        let redactor = Redactor::new(["hunter2-hunter2".to_owned()]);
        let end = IntegrationEnd::GateFailed {
            command: "make test".to_owned(),
            output: "PASSWORD=hunter2-hunter2\nfailed".to_owned(),
        };
        let finished = Finished::Integration(end.into());
        let Finished::Integration(report) = redacted(&redactor, finished) else {
            panic!("another kind of end");
        };
        let IntegrationEnd::GateFailed { command, output } = report.end else {
            panic!("another end");
        };
        assert_eq!(
            (command.as_str(), output.as_str()),
            ("make test", "PASSWORD=[redacted]\nfailed")
        );
    }
}
