//! What leaves the worker in a report: without secrets, and small enough for a message.
//!
//! A session's own words are redacted as they come ([`crate::session`]); here goes the rest: what git, setup and gate said,
//! whose output may be anything.

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

/// Room for everything in a report but its text, at first. Bytes, before they are written as JSON.
const REPORT_BYTES: usize = 400 * 1024;
/// The same at last. JSON writes one byte as six at most.
const LEAST_REPORT_BYTES: usize = 16 * 1024;

/// Longest name, version or model of an agent. Bytes.
const NAME_BYTES: usize = 1_000;

/// The message that a spooled report becomes: a long text goes in parts, and what is too large for a message is cut.
///
/// # Errors
/// When it can't be read, or a part of its text not be put.
pub async fn message(instance: &Instance, spooled: &[u8]) -> anyhow::Result<Bytes> {
    let read = by_length(spooled.len(), || serde_json::from_slice(spooled));
    let mut report: Report = match read {
        Ok(report) => report,
        // Another release spooled it: whoever reads it judges it. Kept here it would hold its task as long as this worker lives.
        Err(_) if spooled.len() <= instance.broker.most_bytes() => {
            return Ok(with_incarnation(
                &instance.config.name,
                instance.incarnation,
                spooled,
            ));
        }
        Err(error) => return Err(error).context("failed to read a spooled report"),
    };
    // Coordinators hear the instance that has the worker's name: what an earlier one left is this one's to tell.
    if report.worker == instance.config.name {
        report.incarnation = instance.incarnation;
    }
    if let Finished::Session(session) = &mut report.finished
        && let Text::Inline(text) = &mut session.text
    {
        // Where a run's limit lets a session say more. Its end tells what came of it.
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

/// A worker's report that can't be read here, with this instance's incarnation.
fn with_incarnation(worker: &str, incarnation: Incarnation, spooled: &[u8]) -> Bytes {
    match serde_json::from_slice::<Value>(spooled) {
        Ok(mut report) if report["worker"] == worker => {
            report["incarnation"] = Value::String(incarnation.0.to_string());
            report.to_string().into()
        }
        Ok(_) | Err(_) => Bytes::copy_from_slice(spooled),
    }
}

/// Cuts what could make a report too large for a message.
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

/// Keeps the beginning of a diff, and the gravest of what was found in tests.
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

/// Of a command's output, or a session's text, the end says most.
fn cut_front(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        text.drain(..text.ceil_char_boundary(text.len() - bytes));
    }
}

/// A session's texts. They were redacted as they came, with the secrets of that time; a login may have got others since.
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

/// Takes secrets out of what ended.
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
        // However it ended, its words stand in strings, and ids and commits hold nothing secret.
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
    fn what_an_earlier_life_left_is_told_by_this_one() {
        let (earlier, now) = (Incarnation::new(), Incarnation::new());
        let spooled = format!(
            r#"{{"v":99,"worker":"w","incarnation":"{}","later":1}}"#,
            earlier.0
        );
        let told: Value = serde_json::from_slice(&with_incarnation("w", now, spooled.as_bytes())).unwrap();
        assert_eq!(
            told,
            serde_json::json!({"v": 99, "worker": "w", "incarnation": now, "later": 1})
        );
        // Under the name that it had then, only the earlier instance is known.
        assert_eq!(with_incarnation("x", now, spooled.as_bytes()), spooled.as_bytes());
        assert_eq!(with_incarnation("w", now, b"no report"), &b"no report"[..]);
    }

    #[test]
    fn of_a_change_the_beginning_and_the_gravest_are_told() {
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
    fn whatever_a_session_said_is_told_without_secrets() {
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
        let Finished::Session(mut told) = redacted(&redactor, finished) else {
            panic!("another kind of end");
        };
        assert_eq!(session_texts(&mut told).count(), 7);
        assert!(
            session_texts(&mut told).all(|words| words == "it is [redacted]"),
            "{told:?}"
        );
        let told = serde_json::to_string(&told).unwrap();
        assert!(!told.contains("hunter2"), "{told}");
    }

    #[test]
    fn what_a_gate_printed_is_told_without_secrets() {
        let redactor = Redactor::new(["hunter2-hunter2".to_owned()]);
        let end = IntegrationEnd::GateFailed {
            command: "make test".to_owned(),
            output: "PASSWORD=hunter2-hunter2\nfailed".to_owned(),
        };
        let finished = Finished::Integration(end.into());
        let Finished::Integration(told) = redacted(&redactor, finished) else {
            panic!("another kind of end");
        };
        let IntegrationEnd::GateFailed { command, output } = told.end else {
            panic!("another end");
        };
        assert_eq!(
            (command.as_str(), output.as_str()),
            ("make test", "PASSWORD=[redacted]\nfailed")
        );
    }
}
