//! Ids of several things that one request creates, the same when it is repeated; and suggestions for wrong
//! ids.

use ralph_shared::wire::sha256_hex;
use uuid::Uuid;

/// The `n`-th id after `first`, which has number 0. It looks like any other: the visible end of an id is as
/// random.
pub fn further(first: Uuid, n: usize) -> Uuid {
    if n == 0 {
        return first;
    }
    let hash = sha256_hex(format!("{first} {n}").as_bytes());
    let end = u128::from_str_radix(hash.get(..SHOWN).unwrap_or_default(), 16).unwrap_or_default();
    Uuid::from_u128((first.as_u128() >> (4 * SHOWN) << (4 * SHOWN)) | end)
}

/// Hex digits at the end of an id that people see (SPEC 1).
const SHOWN: usize = 12;
/// One wrong digit is allowed in so many. Ids are random: with two wrong digits of twelve, another id is
/// still no match by chance.
const DIGITS_A_SLIP: usize = 6;

/// The existing id, in its short form, that a wrong one may mean. A prefix is compared with prefixes.
pub fn nearest<'i>(typed: &str, ids: impl IntoIterator<Item = &'i str>) -> Option<&'i str> {
    let typed = digits(typed).to_lowercase();
    let slips = typed.len().min(SHOWN) / DIGITS_A_SLIP;
    // Longer than any id with as many errors: comparing it with a thousand of them would take seconds.
    if slips == 0 || typed.len() > SHOWN + slips {
        return None;
    }
    ids.into_iter()
        .map(|id| (distance(&typed, digits(id)), id))
        .filter(|(distance, _)| *distance <= slips)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, id)| id)
}

/// What stands behind the dash.
fn digits(id: &str) -> &str {
    id.split_once('-').map_or(id, |(_, digits)| digits)
}

/// Compares with as many digits of the id, and with one more or less: one may be missing, or typed twice.
fn distance(typed: &str, id: &str) -> usize {
    let lengths = typed.len().saturating_sub(1)..=typed.len() + 1;
    lengths
        .map(|length| strsim::osa_distance(typed, id.get(..length).unwrap_or(id)))
        .min()
        .unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn further_ids_are_the_same_again_and_all_different() {
        let first = Uuid::now_v7();
        let ids: HashSet<Uuid> = (0..1_000).map(|n| further(first, n)).collect();
        assert_eq!(ids.len(), 1_000);
        assert_eq!(further(first, 0), first);
        assert_eq!(further(first, 7), further(first, 7));
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        assert_ne!(further(first, 1), further(Uuid::now_v7(), 1));
    }

    #[test]
    fn an_id_is_meant_by_one_with_a_slip_in_it() {
        let ids = ["run-9f2c41aa07be", "run-03e1d5582c4a"];
        for typed in [
            "run-9f2c41aa07bf",
            "run-9f2c41a07be",
            "run-9f2c14aa07be",
            "run-8f2c41aa07bf",
            "RUN-9F2C41AA07BF",
            "9f2c41aa07bf",
            "run-9f2c42",
        ] {
            assert_eq!(nearest(typed, ids), Some(ids[0]), "{typed}");
        }
        for far in ["run-7e2d41aa17bf", "run-9e", "run-", "todo", "", "run-äöü"] {
            assert_eq!(nearest(far, ids), None, "{far}");
        }
        let untouched = std::iter::from_fn(|| -> Option<&'static str> { panic!("it is compared") });
        assert_eq!(nearest(&"a".repeat(60_000), untouched), None);
    }
}
