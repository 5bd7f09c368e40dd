//! The newest bytes of a stream that may be endless.

use std::collections::VecDeque;

/// Keeps the last `limit_bytes` of what is pushed.
#[derive(Debug)]
pub struct Tail {
    bytes: VecDeque<u8>,
    limit_bytes: usize,
    cut: bool,
}

impl Tail {
    /// An empty one.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            limit_bytes,
            cut: false,
        }
    }

    /// Adds bytes, and forgets as many of the oldest as are over the limit.
    pub fn push(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(self.limit_bytes)..];
        let over = (self.bytes.len() + kept.len()).saturating_sub(self.limit_bytes);
        self.cut |= over > 0 || kept.len() < bytes.len();
        self.bytes.drain(..over);
        self.bytes.extend(kept);
    }

    /// Whether anything was forgotten.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// What is kept, from a character's boundary on; bytes that are no UTF-8 are replaced.
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
    fn newest_bytes_stay_and_characters_stay_whole() {
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
    fn invalid_bytes_are_replaced() {
        let mut tail = Tail::new(8);
        tail.push(b"a\xffb");
        assert_eq!(tail.text(), "a\u{fffd}b");
    }
}
