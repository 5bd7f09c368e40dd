//! Ids of several things that one request makes, the same ones when it comes again; and which id a wrong one may have meant.

use ralph_shared::wire::sha256_hex;
use uuid::Uuid;

/// The `n`-th id after `first`, which is the one with number 0. Nobody can tell it from any other: what people see of an id,
/// its end, is as random.
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
/// Of so many digits one may be wrong. Ids are random: two wrong ones of twelve are still no other id by chance.
const DIGITS_A_SLIP: usize = 6;

/// The id, in the form that people see, that one which nothing has may have meant. Of a beginning, the beginnings are compared.
pub fn nearest<'i>(typed: &str, ids: impl IntoIterator<Item = &'i str>) -> Option<&'i str> {
    let typed = digits(typed).to_lowercase();
    let slips = typed.len().min(SHOWN) / DIGITS_A_SLIP;
    // Longer than any id with as many slips: to compare it with a thousand of them would take seconds.
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

/// To as many digits of the id, or to one more or less: one may have been left out, or typed twice.
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
