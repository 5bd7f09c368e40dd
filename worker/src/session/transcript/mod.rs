//! The outgoing transcript of a session: redacted, adjacent text joined, numbered, bounded. The sender never
//! waits and never fails. If its publisher is slow, entries are dropped and counted.

pub(crate) mod record;
pub(crate) mod tools;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::session::redaction::{RedactedStream, Redactor};

/// Largest batch as JSON, unless one entry alone is larger. Bytes.
pub const BATCH_BYTES: usize = 200 * 1000;

/// Longest time that an entry waits for others in its batch.
pub const BATCH_LINGER: Duration = Duration::from_millis(250);

/// Most text joined into one entry. Even with every byte escaped it stays below a message's limit. Bytes.
const JOINED_BYTES: usize = 64 * 1024;

/// Longest field of any other entry. Bytes.
const FIELD_BYTES: usize = 16 * 1024;

/// Most bytes queued for the publisher.
const QUEUE_BYTES: usize = 8 * 1024 * 1024;

/// Most bytes stored of one session's transcript.
const TRANSCRIPT_BYTES: usize = 64 * 1024 * 1024;

/// Creates both halves of a transcript.
pub fn channel(redactor: Redactor) -> (TranscriptSender, TranscriptReceiver) {
    let shared = Arc::new(Shared {
        queue: Mutex::new(Queue {
            entries: VecDeque::new(),
            queued_bytes: 0,
            kept_bytes: 0,
            next_seq: 0,
            dropped: 0,
            oldest: Instant::now(),
            text: redactor.stream(),
            thought: redactor.stream(),
            closed: false,
        }),
        news: Notify::new(),
    });
    let sender = TranscriptSender(Arc::new(Sending {
        shared: shared.clone(),
        redactor,
    }));
    let receiver = TranscriptReceiver {
        shared,
        linger: BATCH_LINGER,
    };
    (sender, receiver)
}

/// The session's half. Cheap to clone; the transcript ends when the last clone is dropped.
#[derive(Clone)]
pub struct TranscriptSender(Arc<Sending>);

struct Sending {
    shared: Arc<Shared>,
    redactor: Redactor,
}

/// The publisher's half.
pub struct TranscriptReceiver {
    shared: Arc<Shared>,
    linger: Duration,
}

struct Shared {
    queue: Mutex<Queue>,
    news: Notify,
}

struct Queue {
    entries: VecDeque<TranscriptEntry>,
    queued_bytes: usize,
    kept_bytes: usize,
    next_seq: u64,
    dropped: u64,
    /// Arrival time of the oldest queued entry.
    oldest: Instant,
    text: RedactedStream,
    thought: RedactedStream,
    closed: bool,
}

impl TranscriptSender {
    /// The text without secrets, cut to this length. Redaction comes first: it can't recognize half a secret.
    pub fn redacted(&self, text: &str, bytes: usize) -> String {
        bounded(&self.redactor().words(text), bytes)
    }

    pub fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }

    pub fn text(&self, chunk: &str) {
        self.0.shared.with(|queue| {
            let text = queue.text.push(chunk);
            queue.joined(text, TextKind::Message);
        });
    }

    pub fn thought(&self, chunk: &str) {
        self.0.shared.with(|queue| {
            let text = queue.thought.push(chunk);
            queue.joined(text, TextKind::Thought);
        });
    }

    /// Adds any other update. Long fields are cut.
    pub fn push(&self, mut update: TranscriptUpdate) {
        each_text(&mut update, |text| {
            *text = bounded(&self.0.redactor.words(text), FIELD_BYTES);
        });
        self.0.shared.with(|queue| {
            if matches!(update, TranscriptUpdate::Ended { .. }) {
                queue.flush();
            }
            queue.add(update);
        });
    }

    /// Releases text that was held back as a possible secret.
    pub fn flush(&self) {
        self.0.shared.with(Queue::flush);
    }

    /// Adds a note from the worker.
    pub fn note(&self, text: impl Into<String>) {
        self.push(TranscriptUpdate::Note { text: text.into() });
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.shared.with(|queue| {
            queue.flush();
            queue.closed = true;
        });
    }
}

impl TranscriptReceiver {
    /// Sets how long an entry waits for others.
    #[must_use]
    pub fn lingering(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    pub fn take(&mut self) -> Vec<TranscriptEntry> {
        let mut queue = self.shared.queue.lock();
        let mut entries = Vec::new();
        while !queue.entries.is_empty() {
            entries.extend(queue.take_batch());
        }
        entries
    }

    /// Waits for the next entries: until they fill a batch, have waited long enough, or the session ended.
    /// `None` at the end of the transcript.
    pub async fn next_batch(&mut self) -> Option<Vec<TranscriptEntry>> {
        loop {
            let due = {
                let mut queue = self.shared.queue.lock();
                if queue.entries.is_empty() && queue.closed {
                    return None;
                }
                let due = queue.oldest + self.linger;
                let full = queue.queued_bytes >= BATCH_BYTES;
                if !queue.entries.is_empty() && (full || queue.closed || Instant::now() >= due) {
                    return Some(queue.take_batch());
                }
                (!queue.entries.is_empty()).then_some(due)
            };
            let news = self.shared.news.notified();
            match due {
                Some(due) => drop(tokio::time::timeout_at(due, news).await),
                None => news.await,
            }
        }
    }
}

impl Shared {
    fn with(&self, change: impl FnOnce(&mut Queue)) {
        change(&mut self.queue.lock());
        self.news.notify_one();
    }
}

/// Kinds of text to join.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Message,
    Thought,
}

impl Queue {
    fn joined(&mut self, text: String, kind: TextKind) {
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let room = match (self.entries.back_mut().map(|entry| &mut entry.update), kind) {
                (Some(TranscriptUpdate::Text { text }), TextKind::Message)
                | (Some(TranscriptUpdate::Thought { text }), TextKind::Thought) => {
                    let room = rest.floor_char_boundary(JOINED_BYTES.saturating_sub(text.len()));
                    let full =
                        self.queued_bytes + room > QUEUE_BYTES || self.kept_bytes + room > TRANSCRIPT_BYTES;
                    let room = if full { 0 } else { room };
                    text.push_str(&rest[..room]);
                    self.queued_bytes += room;
                    self.kept_bytes += room;
                    room
                }
                _ => 0,
            };
            rest = &rest[room..];
            let (head, tail) = rest.split_at(rest.floor_char_boundary(JOINED_BYTES));
            if !head.is_empty() {
                let text = head.to_owned();
                self.add(match kind {
                    TextKind::Message => TranscriptUpdate::Text { text },
                    TextKind::Thought => TranscriptUpdate::Thought { text },
                });
            }
            rest = tail;
        }
    }

    fn add(&mut self, mut update: TranscriptUpdate) {
        let mut bytes = 64;
        each_text(&mut update, |text| bytes += text.len());
        let last = matches!(update, TranscriptUpdate::Ended { .. });
        let full = self.queued_bytes + bytes > QUEUE_BYTES || self.kept_bytes + bytes > TRANSCRIPT_BYTES;
        if full && !last {
            self.dropped += 1;
            return;
        }
        if self.dropped > 0 {
            let count = std::mem::take(&mut self.dropped);
            self.append(TranscriptUpdate::Dropped { count }, 64);
        }
        self.append(update, bytes);
    }

    fn append(&mut self, update: TranscriptUpdate, bytes: usize) {
        if self.entries.is_empty() {
            self.oldest = Instant::now();
        }
        self.entries.push_back(TranscriptEntry {
            seq: self.next_seq,
            at_ms: now_ms(),
            update,
        });
        self.next_seq += 1;
        self.queued_bytes += bytes;
        self.kept_bytes += bytes;
    }

    fn flush(&mut self) {
        let text = self.text.finish();
        self.joined(text, TextKind::Message);
        let thought = self.thought.finish();
        self.joined(thought, TextKind::Thought);
    }

    fn take_batch(&mut self) -> Vec<TranscriptEntry> {
        let mut batch = Vec::new();
        let mut size = 0;
        while let Some(entry) = self.entries.front_mut() {
            let json = serde_json::to_vec(entry).map_or(0, |json| json.len() + 1);
            if !batch.is_empty() && size + json > BATCH_BYTES {
                break;
            }
            size += json;
            let mut bytes = 64;
            each_text(&mut entry.update, |text| bytes += text.len());
            self.queued_bytes = self.queued_bytes.saturating_sub(bytes);
            batch.extend(self.entries.pop_front());
        }
        batch
    }
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn each_text(update: &mut TranscriptUpdate, mut change: impl FnMut(&mut String)) {
    use TranscriptUpdate as U;
    match update {
        U::Started { agent, model } => {
            change(agent);
            model.iter_mut().for_each(change);
        }
        U::Text { text } | U::Thought { text } | U::Usage { text } | U::Note { text } => change(text),
        U::Tool {
            id,
            title,
            status,
            input,
            output,
        } => {
            change(id);
            [title, status, input, output]
                .into_iter()
                .flatten()
                .for_each(change);
        }
        U::Plan { entries } => entries.iter_mut().for_each(change),
        U::Request {
            method,
            detail,
            answer,
        } => [method, detail, answer].into_iter().for_each(change),
        U::Said { by, text } => [by, text].into_iter().for_each(change),
        U::Session { kind, text } => [kind, text].into_iter().for_each(change),
        U::Ended { how } => change(how),
        U::Dropped { .. } | U::Unknown => {}
    }
}

/// At most `limit` bytes of a text, cut at a character boundary, with a note about the missing bytes.
pub(super) fn bounded(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let kept = text.floor_char_boundary(limit);
    format!("{}… [{} bytes cut]", &text[..kept], text.len() - kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(entries: &[TranscriptEntry]) -> Vec<String> {
        entries
            .iter()
            .map(|entry| match &entry.update {
                TranscriptUpdate::Text { text } => format!("text {text}"),
                TranscriptUpdate::Thought { text } => format!("thought {text}"),
                TranscriptUpdate::Note { text } => format!("note {text}"),
                TranscriptUpdate::Dropped { .. } => "dropped".to_owned(),
                TranscriptUpdate::Ended { how } => format!("ended {how}"),
                other => format!("{other:?}"),
            })
            .collect()
    }

    async fn all(mut receiver: TranscriptReceiver) -> Vec<TranscriptEntry> {
        let mut entries = Vec::new();
        while let Some(batch) = receiver.next_batch().await {
            let size: usize = batch
                .iter()
                .map(|e| serde_json::to_vec(e).unwrap().len() + 1)
                .sum();
            assert!(size <= BATCH_BYTES || batch.len() == 1, "{size}");
            entries.extend(batch);
        }
        assert!(
            entries
                .iter()
                .enumerate()
                .all(|(at, entry)| entry.seq == at as u64)
        );
        entries
    }

    #[tokio::test]
    async fn adjacent_text_is_joined_and_secrets_across_chunks_are_removed() {
        let (sender, receiver) = channel(Redactor::new(["hunter2hunter2".to_owned()]));
        sender.text("one ");
        sender.text("two hunter2");
        sender.push(TranscriptUpdate::Usage { text: "u".into() });
        sender.text("hunter2 three");
        sender.thought("hm");
        sender.note("hunter2hunter2");
        sender.push(TranscriptUpdate::Ended {
            how: "end_turn".into(),
        });
        drop(sender);
        assert_eq!(
            texts(&all(receiver).await),
            [
                "text one two ",
                "Usage { text: \"u\" }",
                "text [redacted] three",
                "thought hm",
                "note [redacted]",
                "ended end_turn",
            ]
        );
    }

    #[tokio::test]
    async fn entries_dropped_for_a_slow_publisher_are_counted() {
        let (sender, mut receiver) = channel(Redactor::new([]));
        let chunk = "é".repeat(JOINED_BYTES / 2 + 1);
        (0..200).for_each(|_| sender.text(&chunk));
        assert!(sender.0.shared.queue.lock().queued_bytes <= QUEUE_BYTES);
        sender.push(TranscriptUpdate::Ended { how: "x".into() });
        let first = receiver.next_batch().await.unwrap();
        assert_eq!(first[0].seq, 0);
        sender.note("after");
        drop(sender);
        let rest = texts(&all_from(receiver).await);
        assert_eq!(rest[rest.len() - 3..], ["dropped", "ended x", "note after"]);
    }

    async fn all_from(mut receiver: TranscriptReceiver) -> Vec<TranscriptEntry> {
        let mut entries = Vec::new();
        while let Some(batch) = receiver.next_batch().await {
            entries.extend(batch);
        }
        entries
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_batch_waits_for_other_entries_but_not_for_long() {
        let (sender, mut receiver) = channel(Redactor::new([]));
        let began = Instant::now();
        sender.text("a");
        let batch = receiver.next_batch().await.unwrap();
        assert_eq!(texts(&batch), ["text a"]);
        let waited = began.elapsed();
        assert!(waited >= BATCH_LINGER && waited < BATCH_LINGER * 2, "{waited:?}");
    }

    #[test]
    fn no_part_of_a_secret_at_the_cut_remains() {
        let (sender, _receiver) = channel(Redactor::new(["hunter2-hunter2".to_owned()]));
        let kept = sender.redacted(&format!("{} hunter2-hunter2 and more", "x".repeat(90)), 100);
        assert!(kept.starts_with('x') && !kept.contains("hunter"), "{kept}");
    }

    #[test]
    fn long_fields_are_cut_at_a_character_boundary() {
        assert_eq!(bounded("ééé", 3), "é… [4 bytes cut]");
        assert_eq!(bounded("abc", 3), "abc");
    }
}
