//! The newest bytes of a possibly endless stream.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Pushes within this time share one timestamp.
const SAME_TIME: Duration = Duration::from_millis(50);

/// How many timestamps are stored. Older bytes have the oldest timestamp.
const MOST_TIMES: usize = 1024;

/// Stores the last `limit_bytes` pushed bytes.
#[derive(Debug)]
pub struct Tail {
    bytes: VecDeque<u8>,
    limit_bytes: usize,
    cut: bool,
    total_bytes: u64,
    /// Times of pushes, with the number of bytes before each; oldest first.
    times: VecDeque<(Instant, u64)>,
}

impl Tail {
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            limit_bytes,
            cut: false,
            total_bytes: 0,
            times: VecDeque::new(),
        }
    }

    /// Adds bytes and drops the oldest ones above the limit.
    pub fn push(&mut self, bytes: &[u8]) {
        self.push_at(Instant::now(), bytes);
    }

    fn push_at(&mut self, now: Instant, bytes: &[u8]) {
        let newest = self.times.back().map(|(at, _)| *at);
        if newest.is_none_or(|newest| now.saturating_duration_since(newest) >= SAME_TIME) {
            self.times.push_back((now, self.total_bytes));
            self.times.drain(..self.times.len().saturating_sub(MOST_TIMES));
        }
        self.total_bytes += bytes.len() as u64;
        let kept = &bytes[bytes.len().saturating_sub(self.limit_bytes)..];
        let over = (self.bytes.len() + kept.len()).saturating_sub(self.limit_bytes);
        self.cut |= over > 0 || kept.len() < bytes.len();
        self.bytes.drain(..over);
        self.bytes.extend(kept);
    }

    /// Whether any bytes were dropped.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The stored text since this time, and from shortly before. Invalid UTF-8 is replaced.
    pub fn text_since(&self, since: Instant) -> String {
        let later = self.times.iter().find(|(at, _)| *at + SAME_TIME >= since);
        let Some((_, from)) = later else {
            return String::new();
        };
        let kept_from = self.total_bytes - self.bytes.len() as u64;
        let skipped = usize::try_from(from.saturating_sub(kept_from)).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = self.bytes.iter().skip(skipped).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The stored text from a character boundary on. Invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        let (front, back) = self.bytes.as_slices();
        let mut bytes = [front, back].concat();
        if self.cut {
            let boundary = bytes.iter().take(4).position(|byte| (byte & 0xC0) != 0x80);
            bytes.drain(..boundary.unwrap_or(0));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_stores_the_newest_bytes_in_whole_characters() {
        let check = |limit, pushed: &[&str], text: &str, cut| {
            let mut tail = Tail::new(limit);
            pushed.iter().for_each(|bytes| tail.push(bytes.as_bytes()));
            assert_eq!((tail.text().as_str(), tail.is_cut()), (text, cut), "{pushed:?}");
        };
        check(4, &["ab", "cd"], "abcd", false);
        check(4, &["ab", "cde"], "bcde", true);
        check(4, &["abcdefgh"], "efgh", true);
        check(3, &["aéé"], "é", true);
        check(5, &["a", "😀", "b"], "😀b", true);
        check(4, &["😀", "b"], "b", true);
        check(0, &["ab"], "", true);
    }

    #[test]
    fn text_since_a_time_leaves_out_older_text() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut tail = Tail::new(6);
        tail.push_at(at(1), b"one");
        tail.push_at(at(2), b"two");
        tail.push_at(at(3), b"3");
        let check = |since, expected: &str| assert_eq!(tail.text_since(at(since)), expected, "{since}");
        check(0, "netwo3");
        check(1, "netwo3");
        check(2, "two3");
        check(3, "3");
        check(4, "");
    }

    #[test]
    fn invalid_bytes_are_replaced() {
        let mut tail = Tail::new(8);
        tail.push(b"a\xffb");
        assert_eq!(tail.text(), "a\u{fffd}b");
    }
}
