//! Removal of secrets from everything that leaves the worker (DESIGN 5): of known values, and of the key
//! shapes of common providers. A stream's result does not depend on its chunks: text that could still become
//! a secret is held back until more arrives.

pub(crate) mod secrets;
pub(crate) mod tail;

use std::sync::Arc;

use ralph_shared::at_length::by_length;
use ralph_shared::plain::plain;
use ralph_shared::wire::Change;
use serde_json::Value;

use crate::session::redaction::secrets::{Class, SHAPES, Shape, Starts};

pub const REDACTED: &str = "[redacted]";

/// Values shorter than this are not treated as secrets, because they may be common words. Bytes.
const SHORTEST_SECRET_BYTES: usize = 8;

/// Longest text removed for a private key without an end. Bytes.
const LONGEST_PEM_BYTES: usize = 64 * 1024;

/// Longest name between `-----BEGIN ` and the dashes after it. Bytes.
const LONGEST_PEM_LABEL_BYTES: usize = 40;

/// Longest line of a test in a report. Bytes.
const SHOWN_LINE_BYTES: usize = 200;

/// The set of secrets. Cheap to clone.
#[derive(Clone)]
pub struct Redactor(Arc<Rules>);

struct Rules {
    /// Longest first, so that a longer secret is matched before its prefix.
    secrets: Vec<String>,
    starts: Starts,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} secrets)", self.0.secrets.len())
    }
}

impl Default for Redactor {
    /// Knows only the key shapes.
    fn default() -> Self {
        Self::new([])
    }
}

impl Redactor {
    /// Knows the key shapes and these values, also as escaped in JSON strings.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = values
            .into_iter()
            .filter(|value| value.len() >= SHORTEST_SECRET_BYTES)
            .flat_map(|value| {
                let quoted = Value::from(value.as_str()).to_string();
                let escaped = quoted[1..quoted.len() - 1].to_owned();
                [value, escaped]
            })
            .collect();
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        let prefixes = SHAPES.iter().map(|shape| shape.prefix.as_bytes());
        let starts = Starts::new(
            prefixes
                .chain(secrets.iter().map(String::as_bytes))
                .chain([PEM_BEGIN]),
        );
        Self(Arc::new(Rules { secrets, starts }))
    }

    /// Adds values to the known ones.
    pub fn with(&self, values: impl IntoIterator<Item = String>) -> Self {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return self.clone();
        }
        Self::new(self.0.secrets.iter().cloned().chain(values))
    }

    /// Redacts a task's change: the agent may have written a secret to a file.
    pub fn change(&self, mut change: Change) -> Change {
        change.diff = self.text(&change.diff);
        for test in &mut change.tests {
            // The lines are redacted together, since a key may span several lines. They are cut afterwards,
            // since half a secret would not be recognized.
            let lines = self.text(&test.lines.join("\n"));
            let shown = lines
                .lines()
                .map(|line| &line[..line.floor_char_boundary(SHOWN_LINE_BYTES)]);
            test.lines = shown.map(str::to_owned).collect();
        }
        change
    }

    /// Redacts a whole text, which may be as long as a session's entire output.
    pub fn text(&self, text: &str) -> String {
        by_length(text.len(), || {
            let mut stream = self.stream();
            let mut out = stream.push(text);
            out.push_str(&stream.finish());
            out
        })
    }

    /// Redacts output of an agent or another program. Removes terminal sequences first, since one could split
    /// a secret.
    pub fn words(&self, text: &str) -> String {
        self.text(&plain(text))
    }

    /// Redacts all strings of a JSON value. Keys are never secret.
    pub fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.words(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.json(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.json(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Redacts a text that arrives in chunks.
    pub fn stream(&self) -> RedactedStream {
        RedactedStream {
            rules: self.0.clone(),
            held: String::new(),
            state: State::Plain,
            before: None,
        }
    }
}

enum State {
    Plain,
    Key(Class),
    /// Inside a private key, before its end marker.
    Pem(PemEnd),
}

/// The part of `-----END …-----` seen so far.
struct PemEnd {
    marker: usize,
    dashes: usize,
    swallowed_bytes: usize,
}

const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const PEM_END: &[u8] = b"-----END ";
const PEM_DASHES: &[u8] = b"-----";

/// A text that arrives in chunks.
pub struct RedactedStream {
    rules: Arc<Rules>,
    held: String,
    state: State,
    /// The last byte before the held text.
    before: Option<u8>,
}

/// Result of a search at one position.
enum Hit {
    Nothing,
    /// Undecided until more text arrives.
    Perhaps,
    Secret {
        len: usize,
        then: State,
    },
}

impl RedactedStream {
    /// Adds a chunk. Returns the text that is certain to be no secret.
    pub fn push(&mut self, chunk: &str) -> String {
        self.held.push_str(chunk);
        self.scan(false)
    }

    /// Returns the rest. The stream can be used again afterwards.
    pub fn finish(&mut self) -> String {
        let rest = self.scan(true);
        self.state = State::Plain;
        self.before = None;
        rest
    }

    fn scan(&mut self, whole: bool) -> String {
        let text = std::mem::take(&mut self.held);
        let bytes = text.as_bytes();
        let mut out = String::with_capacity(bytes.len());
        let mut at = 0;
        let mut plain = 0;
        while at < bytes.len() {
            match &mut self.state {
                State::Key(class) => {
                    let class = *class;
                    at += bytes[at..].iter().take_while(|byte| class.holds(**byte)).count();
                    plain = at;
                    if at < bytes.len() {
                        self.state = State::Plain;
                    }
                }
                State::Pem(end) => {
                    let ended = end.take(bytes[at]);
                    at += 1;
                    while !text.is_char_boundary(at) {
                        at += 1;
                    }
                    plain = at;
                    if ended {
                        self.state = State::Plain;
                    }
                }
                State::Plain if !self.rules.starts.may(bytes, at) => at += 1,
                State::Plain => {
                    let before = if at > 0 { Some(bytes[at - 1]) } else { self.before };
                    match self.rules.find(&bytes[at..], before, whole) {
                        Hit::Nothing => at += 1,
                        Hit::Perhaps => break,
                        Hit::Secret { len, then } => {
                            out.push_str(&text[plain..at]);
                            out.push_str(REDACTED);
                            at += len;
                            plain = at;
                            self.state = then;
                        }
                    }
                }
            }
        }
        out.push_str(&text[plain..at]);
        if at > 0 {
            self.before = Some(bytes[at - 1]);
        }
        self.held.push_str(&text[at..]);
        out
    }
}

impl Rules {
    /// Searches for a secret at the start of `rest`. Only reads the bytes that decide: a longer `rest` has
    /// the same result unless this one is `Perhaps`.
    fn find(&self, rest: &[u8], before: Option<u8>, whole: bool) -> Hit {
        for secret in self.secrets.iter().map(String::as_bytes) {
            if rest.starts_with(secret) {
                return Hit::Secret {
                    len: secret.len(),
                    then: State::Plain,
                };
            }
            if !whole && secret.starts_with(rest) {
                return Hit::Perhaps;
            }
        }
        let pem = find_pem(rest, whole);
        if !matches!(pem, Hit::Nothing) {
            return pem;
        }
        if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Hit::Nothing;
        }
        for shape in SHAPES {
            match find_shape(shape, rest, whole) {
                Hit::Nothing => {}
                found => return found,
            }
        }
        Hit::Nothing
    }
}

fn find_shape(shape: &Shape, rest: &[u8], whole: bool) -> Hit {
    let prefix = shape.prefix.as_bytes();
    let Some(body) = rest.strip_prefix(prefix) else {
        let perhaps = !whole && prefix.starts_with(rest);
        return if perhaps { Hit::Perhaps } else { Hit::Nothing };
    };
    let run = body
        .iter()
        .take(shape.least)
        .take_while(|byte| shape.class.holds(**byte))
        .count();
    if run == shape.least {
        Hit::Secret {
            len: prefix.len() + run,
            then: State::Key(shape.class),
        }
    } else if run == body.len() && !whole {
        Hit::Perhaps
    } else {
        Hit::Nothing
    }
}

fn find_pem(rest: &[u8], whole: bool) -> Hit {
    let perhaps = || if whole { Hit::Nothing } else { Hit::Perhaps };
    let Some(body) = rest.strip_prefix(PEM_BEGIN) else {
        return if PEM_BEGIN.starts_with(rest) {
            perhaps()
        } else {
            Hit::Nothing
        };
    };
    let label = body
        .iter()
        .take(LONGEST_PEM_LABEL_BYTES)
        .take_while(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || **byte == b' ')
        .count();
    let (label, after) = body.split_at(label);
    if after.starts_with(PEM_DASHES) {
        let private = label.windows(11).any(|words| words == b"PRIVATE KEY");
        if !private {
            return Hit::Nothing;
        }
        Hit::Secret {
            len: PEM_BEGIN.len() + label.len() + PEM_DASHES.len(),
            then: State::Pem(PemEnd {
                marker: 0,
                dashes: 0,
                swallowed_bytes: 0,
            }),
        }
    } else if PEM_DASHES.starts_with(after) {
        perhaps()
    } else {
        Hit::Nothing
    }
}

impl PemEnd {
    /// Takes the first byte of the next character. Returns whether the key ended with it.
    fn take(&mut self, byte: u8) -> bool {
        self.swallowed_bytes += 1;
        if self.marker < PEM_END.len() {
            self.marker = if byte == PEM_END[self.marker] {
                self.marker + 1
            } else if byte == b'-' {
                // A sixth dash: the last five dashes still begin the marker.
                if self.marker == PEM_DASHES.len() {
                    self.marker
                } else {
                    1
                }
            } else {
                0
            };
        } else {
            self.dashes = if byte == b'-' { self.dashes + 1 } else { 0 };
        }
        self.dashes == PEM_DASHES.len() || self.swallowed_bytes >= LONGEST_PEM_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redactor() -> Redactor {
        Redactor::new([
            "hunter2hunter2".to_owned(),
            "line\n\"two\" of it".to_owned(),
            "short".to_owned(),
            "hunter2hunter2-long".to_owned(),
        ])
    }

    #[test]
    fn test_lines_are_redacted_before_they_are_cut() {
        use ralph_shared::wire::{TestChange, TestChangeKind};
        let redactor = Redactor::new(["hunter2-hunter2".to_owned()]);
        let across = format!("{}hunter2-hunter2 and more", "x".repeat(SHOWN_LINE_BYTES - 5));
        let key = [
            "-----BEGIN PRIVATE KEY-----",
            "MIIEvgIBADANBgkq",
            "-----END PRIVATE KEY-----",
        ];
        let lines = std::iter::once(across.as_str()).chain(key).map(str::to_owned);
        let change = Change {
            tests: vec![TestChange {
                path: "tests/a.rs".to_owned(),
                kind: TestChangeKind::LinesRemoved,
                lines: lines.collect(),
                more: 0,
            }],
            ..Change::default()
        };
        let shown = redactor.change(change).tests.remove(0).lines;
        let whole = shown.join("\n");
        assert!(!whole.contains("hunte") && !whole.contains("MIIE"), "{whole}");
        assert!(shown.iter().all(|line| line.len() <= SHOWN_LINE_BYTES), "{whole}");
    }

    #[test]
    fn secrets_and_key_shapes_are_removed_and_the_rest_stays() {
        let check = |text: &str, expected: &str| assert_eq!(redactor().text(text), expected);
        check("plain text, short and sk-learn", "plain text, short and sk-learn");
        check("a hunter2hunter2!", "a [redacted]!");
        check("xhunter2hunter2-longy", "x[redacted]y");
        check("hunter2hunter2-lon", "[redacted]-lon");
        check(r#"{"v":"line\n\"two\" of it"}"#, r#"{"v":"[redacted]"}"#);
        check("line\n\"two\" of it", "[redacted]");
        check("key=sk-ant-api03-abcdefghijklmnop_QRS end", "key=[redacted] end");
        check(
            "task-abcdefghijklmnopqrstuvwxyz",
            "task-abcdefghijklmnopqrstuvwxyz",
        );
        check("ghp_abcdefghijklmnopqrstuvwxyz0123456789.", "[redacted].");
        check("AKIAABCDEFGHIJKLMNOP", "[redacted]");
        check("AKIAABC", "AKIAABC");
        check("xoxb-123456789012-abc", "[redacted]");
        check("AIzaSyA-bcdefghijklmnopqrstuvwxyz012345", "[redacted]");
        check(
            "Authorization: Bearer abcdefghijklmnop.qrs\n",
            "Authorization: [redacted]\n",
        );
        check("Bearer of news", "Bearer of news");
        let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\u{e9}\n------END RSA PRIVATE KEY----- after";
        check(pem, "[redacted] after");
        check(
            "-----BEGIN CERTIFICATE-----\nMIIE",
            "-----BEGIN CERTIFICATE-----\nMIIE",
        );
        check("-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]");
        check("ünïcödé -----", "ünïcödé -----");
    }

    #[test]
    fn an_endless_key_is_removed_only_up_to_a_limit() {
        let text = format!("-----BEGIN PRIVATE KEY-----{}", "é".repeat(LONGEST_PEM_BYTES + 3));
        assert_eq!(redactor().text(&text), format!("{REDACTED}ééé"));
    }

    #[test]
    fn a_stream_holds_back_only_possible_secrets() {
        let mut stream = redactor().stream();
        assert_eq!(stream.push("good morning, s"), "good morning, ");
        assert_eq!(stream.push("un"), "sun");
        assert_eq!(stream.push("-----BEGIN PRIV"), "");
        assert_eq!(stream.push("ATE KEY-----abc"), REDACTED);
        assert_eq!(stream.push("-----END PRIVATE KEY-----."), ".");
        assert_eq!(stream.finish(), "");
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_result(
            parts in prop::collection::vec(
                prop_oneof![
                    Just("hunter2hunter2".to_owned()),
                    Just("hunter2hunter2-lo".to_owned()),
                    Just("ng".to_owned()),
                    Just("-----BEGIN RSA PRIVATE KEY-----".to_owned()),
                    Just("-----END RSA PRIVATE KEY-----".to_owned()),
                    Just("Bearer ".to_owned()),
                    Just("sk-".to_owned()),
                    Just("AKIA".to_owned()),
                    "[A-Za-z0-9_-]{0,30}",
                    "[ \\n\"é😀.-]{0,4}",
                ],
                0..12,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let text = parts.concat();
            let mut cuts: Vec<usize> = cuts
                .iter()
                .map(|index| index.index(text.len() + 1))
                .filter(|at| text.is_char_boundary(*at))
                .chain([0, text.len()])
                .collect();
            cuts.sort_unstable();
            let mut stream = redactor().stream();
            let mut joined: String = cuts.windows(2).map(|pair| stream.push(&text[pair[0]..pair[1]])).collect();
            joined.push_str(&stream.finish());
            prop_assert_eq!(&joined, &redactor().text(&text));
            prop_assert!(!joined.contains("hunter2hunter2"));
        }
    }
}
