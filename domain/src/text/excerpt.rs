//! Shortens a long transcript: the beginning and the end of a session are the most useful, so a count
//! replaces the middle.

use std::collections::{BTreeMap, VecDeque};

use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate};

/// A transcript that is read from messages, some of which may be duplicated or missing.
#[derive(Debug)]
pub struct Gathered {
    empty: Excerpt,
    excerpt: Excerpt,
    next: u64,
    seen: u64,
}

impl Gathered {
    pub fn new(empty: Excerpt) -> Self {
        Self {
            excerpt: empty.clone(),
            empty,
            next: 0,
            seen: 0,
        }
    }

    /// Adds an entry of `bytes` JSON bytes, unless it is a duplicate. A transcript that restarts was sent
    /// again because the broker lost some of it; it then fills the gaps.
    pub fn push(&mut self, entry: TranscriptEntry, bytes: usize) {
        if entry.seq == 0 && self.seen < self.next {
            *self = Self::new(self.empty.clone());
        }
        if entry.seq >= self.next {
            self.next = entry.seq.saturating_add(1);
            self.seen += 1;
            self.excerpt.push(entry, bytes);
        }
    }

    /// Number of received entries.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The kept entries, by number.
    pub fn entries(self) -> BTreeMap<u64, TranscriptEntry> {
        self.excerpt.entries()
    }
}

/// Keeps the beginning and the end of a transcript within bounds, as its entries arrive in order.
#[derive(Debug, Clone)]
pub struct Excerpt {
    tail_bytes: usize,
    head: Vec<TranscriptEntry>,
    /// Remaining bytes of the head.
    room: usize,
    tail: VecDeque<(usize, TranscriptEntry)>,
    tail_size: usize,
    gap: Option<Gap>,
}

/// The omitted entries.
#[derive(Debug, Clone)]
struct Gap {
    seq: u64,
    at_ms: i64,
    count: u64,
}

impl Excerpt {
    /// An empty excerpt with `head_bytes` of the beginning and `tail_bytes` of the end, in JSON bytes. Keeps
    /// the last entry at any size.
    pub fn new(head_bytes: usize, tail_bytes: usize) -> Self {
        Self {
            tail_bytes,
            head: Vec::new(),
            room: head_bytes,
            tail: VecDeque::new(),
            tail_size: 0,
            gap: None,
        }
    }

    /// Adds the next entry, of `bytes` JSON bytes.
    pub fn push(&mut self, entry: TranscriptEntry, bytes: usize) {
        if self.tail.is_empty() && bytes <= self.room {
            self.room -= bytes;
            self.head.push(entry);
            return;
        }
        self.tail_size += bytes;
        self.tail.push_back((bytes, entry));
        while self.tail_size > self.tail_bytes && self.tail.len() > 1 {
            let Some((bytes, entry)) = self.tail.pop_front() else {
                break;
            };
            self.tail_size -= bytes;
            // Entries that the worker omitted remain in the count.
            let count = match entry.update {
                TranscriptUpdate::Dropped { count } => count,
                _ => 1,
            };
            let gap = self.gap.get_or_insert(Gap {
                seq: entry.seq,
                at_ms: entry.at_ms,
                count: 0,
            });
            gap.count += count;
        }
    }

    /// The kept entries, by number; a count replaces the first omitted one.
    pub fn entries(self) -> BTreeMap<u64, TranscriptEntry> {
        let gap = self.gap.map(|gap| TranscriptEntry {
            seq: gap.seq,
            at_ms: gap.at_ms,
            update: TranscriptUpdate::Dropped { count: gap.count },
        });
        let tail = self.tail.into_iter().map(|(_, entry)| entry);
        let entries = self.head.into_iter().chain(gap).chain(tail);
        entries.map(|entry| (entry.seq, entry)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, update: TranscriptUpdate) -> TranscriptEntry {
        TranscriptEntry {
            seq,
            at_ms: i64::try_from(seq).unwrap(),
            update,
        }
    }

    fn text(text: &str) -> TranscriptUpdate {
        TranscriptUpdate::Text {
            text: text.to_owned(),
        }
    }

    /// Sends entries of the given sizes through an excerpt of 10 and 5 bytes; expects their numbers, and the
    /// omission as `(number, count)`.
    fn check(sizes: &[usize], expected: &[u64], left_out: Option<(u64, u64)>) {
        let mut excerpt = Excerpt::new(10, 5);
        for (seq, bytes) in (0..).zip(sizes) {
            excerpt.push(entry(seq, text("x")), *bytes);
        }
        let entries = excerpt.entries();
        assert_eq!(entries.keys().copied().collect::<Vec<_>>(), expected, "{sizes:?}");
        let gaps: Vec<_> = entries
            .values()
            .filter_map(|entry| match entry.update {
                TranscriptUpdate::Dropped { count } => Some((entry.seq, count)),
                _ => None,
            })
            .collect();
        assert_eq!(gaps, left_out.into_iter().collect::<Vec<_>>(), "{sizes:?}");
    }

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        check(&[], &[], None);
        check(&[4, 4, 2], &[0, 1, 2], None);
        check(&[5, 5, 3, 2], &[0, 1, 2, 3], None);
        check(&[5, 5, 3, 2, 1], &[0, 1, 2, 3, 4], Some((2, 1)));
        check(&[5, 5, 3, 2, 3, 2], &[0, 1, 2, 4, 5], Some((2, 2)));
        // The first entry that does not fit ends the beginning, so that there is one gap only.
        check(&[9, 3, 1, 3], &[0, 1, 2, 3], Some((1, 1)));
        check(&[99], &[0], None);
        check(&[99, 1], &[0, 1], Some((0, 1)));
        check(&[1, 99, 99], &[0, 1, 2], Some((1, 1)));
    }

    #[test]
    fn a_repeated_transcript_replaces_only_one_with_gaps() {
        let check = |numbers: &[u64], expected: &[u64]| {
            let mut gathered = Gathered::new(Excerpt::new(1_000, 1_000));
            for seq in numbers {
                gathered.push(entry(*seq, text("x")), 1);
            }
            assert_eq!(gathered.seen(), expected.len() as u64, "{numbers:?}");
            assert_eq!(
                gathered.entries().into_keys().collect::<Vec<_>>(),
                expected,
                "{numbers:?}"
            );
        };
        check(&[0, 1, 1, 2], &[0, 1, 2]);
        check(&[0, 1, 2, 0, 1, 2, 3], &[0, 1, 2, 3]);
        check(&[3, 4, 0, 1, 2, 3, 4], &[0, 1, 2, 3, 4]);
        check(&[0, 3, 4, 0, 1, 2, 3, 4], &[0, 1, 2, 3, 4]);
        check(&[2, 3], &[2, 3]);
        check(&[1_000_000_000, 0, 1], &[0, 1]);
    }

    #[test]
    fn entries_omitted_earlier_are_counted() {
        let mut excerpt = Excerpt::new(0, 5);
        excerpt.push(entry(0, text("a")), 3);
        excerpt.push(entry(1, TranscriptUpdate::Dropped { count: 40 }), 3);
        excerpt.push(entry(2, text("b")), 3);
        excerpt.push(entry(3, text("c")), 2);
        let entries = excerpt.entries();
        let expected = TranscriptUpdate::Dropped { count: 41 };
        assert_eq!(entries[&0].update, expected);
        assert_eq!(entries.keys().copied().collect::<Vec<_>>(), [0, 2, 3]);
    }
}
