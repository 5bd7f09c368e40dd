//! The newest bytes of a possibly endless stream, without secrets. Redaction comes before the cut: half a
//! secret at the cut would not be recognized.

use std::time::Instant;

use crate::session::process::tail::Tail;
use crate::session::redaction::{RedactedStream, Redactor};

/// Stores the last redacted bytes. Text that could still become a secret is held back until more arrives or
/// the stream ends.
pub struct RedactedTail {
    tail: Tail,
    stream: RedactedStream,
    /// The first bytes of an incomplete character.
    begun: Vec<u8>,
}

impl RedactedTail {
    pub fn new(redactor: &Redactor, limit_bytes: usize) -> Self {
        Self {
            tail: Tail::new(limit_bytes),
            stream: redactor.stream(),
            begun: Vec::new(),
        }
    }

    /// Adds bytes. Invalid UTF-8 is replaced.
    pub fn push(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
        let whole = self.begun.len() - begun_bytes(&self.begun);
        let bare = self.stream.push(&String::from_utf8_lossy(&self.begun[..whole]));
        self.begun.drain(..whole);
        self.keep(&bare);
    }

    /// Ends the stream: the text held back is no secret.
    pub fn end(&mut self) {
        let begun = std::mem::take(&mut self.begun);
        let mut bare = self.stream.push(&String::from_utf8_lossy(&begun));
        bare.push_str(&self.stream.finish());
        self.keep(&bare);
    }

    fn keep(&mut self, bare: &str) {
        if !bare.is_empty() {
            self.tail.push(bare.as_bytes());
        }
    }

    /// The stored text, from a character boundary on.
    pub fn text(&self) -> String {
        self.tail.text()
    }

    /// The stored text since this time, and from shortly before.
    pub fn text_since(&self, since: Instant) -> String {
        self.tail.text_since(since)
    }
}

/// Number of bytes at the end that begin an incomplete character.
fn begun_bytes(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let odd = last.map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(odd) {
        Err(error) if error.error_len().is_none() => odd.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(limit_bytes: usize) -> RedactedTail {
        RedactedTail::new(&Redactor::new(["hunter2-hunter2".to_owned()]), limit_bytes)
    }

    #[test]
    fn secrets_are_removed_before_the_cut() {
        let check = |pushed: &[&str], expected: &str| {
            let mut tail = tail(12);
            pushed.iter().for_each(|bytes| tail.push(bytes.as_bytes()));
            tail.end();
            assert_eq!(tail.text(), expected, "{pushed:?}");
        };
        check(&["a hunter2-hunter2 end"], "edacted] end");
        check(&["a hunter2-hun", "ter2 and more"], "ed] and more");
        check(
            &["-----BEGIN PRIVATE KEY-----\nMIIEvg", "IBADANBgkqhkiG9w0"],
            "[redacted]",
        );
        check(&["the end: hunter2"], "end: hunter2");
    }

    #[test]
    fn a_possible_secret_is_held_back() {
        let began = Instant::now();
        let mut tail = tail(100);
        tail.push(b"a word, hunter2-");
        assert_eq!(
            (tail.text().as_str(), tail.text_since(began).as_str()),
            ("a word, ", "a word, ")
        );
        tail.push(b"hunter2.");
        assert_eq!(tail.text(), "a word, [redacted].");
    }

    #[test]
    fn characters_may_arrive_in_pieces() {
        let mut tail = tail(100);
        "é😀a".as_bytes().chunks(1).for_each(|byte| tail.push(byte));
        assert_eq!(tail.text(), "é😀a");
        tail.push(b"\xff\xf0\x9fo\xf0\x9f");
        assert_eq!(tail.text(), "é😀a\u{fffd}\u{fffd}o");
        tail.end();
        assert_eq!(tail.text(), "é😀a\u{fffd}\u{fffd}o\u{fffd}");
    }
}
