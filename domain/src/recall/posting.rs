//! Postings of the index, and the choice of candidates: the entries with the most wanted keys.

use std::collections::HashMap;

use time::OffsetDateTime;

use super::query::Lookup;

/// Bits for the minutes of 127 years.
const MINUTE_BITS: u32 = 26;
/// 2000-01-01, from which minutes are counted. Seconds since 1970.
const EPOCH_S: i64 = 946_684_800;

/// A key's occurrence in an entry: the entry's number in the index and its time, in one number. The later
/// entry is the larger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Posting(pub i64);

impl Posting {
    /// The posting of an entry. `memory_posting` in the schema computes the same.
    pub fn new(doc: i64, created_at: OffsetDateTime) -> Self {
        Self((doc << MINUTE_BITS) | minute(created_at))
    }

    /// The entry's number.
    pub fn doc(self) -> i64 {
        self.0 >> MINUTE_BITS
    }

    fn minute(self) -> i64 {
        self.0 & ((1 << MINUTE_BITS) - 1)
    }
}

fn minute(at: OffsetDateTime) -> i64 {
    ((at.unix_timestamp() - EPOCH_S) / 60).clamp(0, (1 << MINUTE_BITS) - 1)
}

/// At most `most` entries with the most wanted keys; among equal ones, the newest. Excludes entries of a
/// later minute than `before`.
pub fn candidates(
    postings: &HashMap<i64, Vec<Posting>>,
    wanted: &[Lookup],
    before: OffsetDateTime,
    most: usize,
) -> Vec<i64> {
    let before = minute(before);
    let mut weights: HashMap<i64, f64> = HashMap::new();
    for Lookup { key, weight } in wanted {
        for posting in postings.get(key).into_iter().flatten() {
            if posting.minute() <= before {
                *weights.entry(posting.doc()).or_insert(0.0) += weight;
            }
        }
    }
    let mut found: Vec<(i64, f64)> = weights.into_iter().collect();
    let order = |one: &(i64, f64), other: &(i64, f64)| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0));
    if found.len() > most && most > 0 {
        found.select_nth_unstable_by(most - 1, order);
        found.truncate(most);
    }
    found.sort_unstable_by(order);
    found.truncate(most);
    found.into_iter().map(|(doc, _)| doc).collect()
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn a_posting_keeps_number_and_minute() {
        for (doc, at) in [
            (1, datetime!(2026-11-22 18:00:59 UTC)),
            (137_438_953_471, datetime!(2127-01-01 00:00 UTC)),
            (7, datetime!(1990-01-01 00:00 UTC)),
        ] {
            let posting = Posting::new(doc, at);
            assert_eq!((posting.doc(), posting.minute()), (doc, minute(at)));
        }
        assert!(
            Posting::new(1, datetime!(2100-01-01 0:00 UTC)) < Posting::new(2, datetime!(1999-01-01 0:00 UTC))
        );
    }

    #[test]
    fn entries_with_the_most_wanted_keys_come_first_then_the_newest() {
        let now = datetime!(2026-11-22 18:00 UTC);
        let at = |doc| Posting::new(doc, now - time::Duration::days(10 - doc));
        let postings = HashMap::from([
            (1, vec![at(1), at(2), at(3)]),
            (2, vec![at(3), at(4)]),
            (3, vec![at(9)]),
        ]);
        let wanted = [(1, 1.0), (2, 0.5), (5, 9.0)].map(|(key, weight)| Lookup { key, weight });
        let check = |before, most, expected: &[i64]| {
            assert_eq!(candidates(&postings, &wanted, before, most), expected);
        };
        check(now, 9, &[3, 2, 1, 4]);
        check(now, 2, &[3, 2]);
        check(now, 0, &[]);
        check(now - time::Duration::days(8), 9, &[2, 1]);
        check(now - time::Duration::days(80), 9, &[]);
    }
}
