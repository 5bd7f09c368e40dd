//! Ids of several things that one request makes: the same ones when it comes again.

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
}
