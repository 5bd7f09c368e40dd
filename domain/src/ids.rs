//! Derives the ids of all things that one request creates: a repeated request gives the same ids. Also
//! suggests an id for a mistyped one.

use ralph_shared::wire::sha256_hex;
use uuid::Uuid;

/// The `n`-th id after `first`, which has number 0. The visible end of the new id is as random as any other.
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
/// Number of typed digits per allowed wrong digit. Ids are random: with two wrong digits of twelve, another
/// id still does not match by chance.
const DIGITS_A_SLIP: usize = 6;

/// The existing short id that a mistyped one may mean. A typed prefix is compared with prefixes.
pub fn nearest<'i>(typed: &str, ids: impl IntoIterator<Item = &'i str>) -> Option<&'i str> {
    let typed = digits(typed).to_lowercase();
    let slips = typed.len().min(SHOWN) / DIGITS_A_SLIP;
    // Too long for any id with that many errors: comparing it with a thousand of them would take seconds.
    if slips == 0 || typed.len() > SHOWN + slips {
        return None;
    }
    ids.into_iter()
        .map(|id| (distance(&typed, digits(id)), id))
        .filter(|(distance, _)| *distance <= slips)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, id)| id)
}

/// The part after the dash.
fn digits(id: &str) -> &str {
    id.split_once('-').map_or(id, |(_, digits)| digits)
}

/// Compares with a prefix of the id of the same length, or one digit shorter or longer: a digit may be
/// missing or doubled.
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
    fn further_ids_are_distinct_and_reproducible() {
        let first = Uuid::now_v7();
        let ids: HashSet<Uuid> = (0..1_000).map(|n| further(first, n)).collect();
        assert_eq!(ids.len(), 1_000);
        assert_eq!(further(first, 0), first);
        assert_eq!(further(first, 7), further(first, 7));
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        assert_ne!(further(first, 1), further(Uuid::now_v7(), 1));
    }

    #[test]
    fn a_mistyped_id_finds_the_intended_one() {
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
        let untouched =
            std::iter::from_fn(|| -> Option<&'static str> { panic!("an overlong text is compared") });
        assert_eq!(nearest(&"a".repeat(60_000), untouched), None);
    }
}
