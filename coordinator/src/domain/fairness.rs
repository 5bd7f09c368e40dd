//! How free slots are divided between features (SPEC 2.3): a feature with 10,000 ready tasks does not starve one with 3.

use ralph_shared::ids::FeatureId;

/// What a feature may still take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The feature.
    pub feature: FeatureId,
    /// Its running sessions.
    pub running: u32,
    /// How many more it may start now: by `max_parallel`, its limits, and what is known of its ready tasks.
    pub room: u32,
}

/// What a look for tasks leaves to whoever got none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Left {
    /// It isn't known what.
    #[default]
    Unknown,
    /// Tasks that are ready, for which their features have no room: each session that ends may make some.
    NoRoom,
    /// Nothing that is ready.
    Nothing,
}

/// Gives each slot to the feature with the fewest running sessions that still has room; the older feature wins ties.
/// Returns how many each one gets, features that get none left out.
pub fn divide(slots: u32, shares: &[Share]) -> Vec<(FeatureId, u32)> {
    let mut heap: std::collections::BinaryHeap<_> = shares
        .iter()
        .enumerate()
        .filter(|(_, share)| share.room > 0)
        .map(|(index, share)| std::cmp::Reverse((share.running, share.feature, index)))
        .collect();
    let mut given = vec![0_u32; shares.len()];
    for _ in 0..slots {
        let Some(std::cmp::Reverse((running, feature, index))) = heap.pop() else {
            break;
        };
        given[index] += 1;
        if given[index] < shares[index].room {
            heap.push(std::cmp::Reverse((running + 1, feature, index)));
        }
    }
    shares
        .iter()
        .zip(given)
        .filter(|(_, n)| *n > 0)
        .map(|(share, n)| (share.feature, n))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(slots: u32, shares: &[(u32, u32)], expected: &[u32]) {
        let shares: Vec<_> = shares
            .iter()
            .enumerate()
            .map(|(i, &(running, room))| Share {
                feature: FeatureId(uuid::Uuid::from_u128(i as u128)),
                running,
                room,
            })
            .collect();
        let given = divide(slots, &shares);
        let got: Vec<_> = shares
            .iter()
            .map(|share| {
                given
                    .iter()
                    .find(|(feature, _)| *feature == share.feature)
                    .map_or(0, |(_, n)| *n)
            })
            .collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn table() {
        check(4, &[(0, 10_000), (0, 3)], &[2, 2]);
        check(10, &[(0, 10_000), (0, 3)], &[7, 3]);
        check(2, &[(5, 10), (0, 10)], &[0, 2]);
        check(1, &[(0, 1), (0, 1)], &[1, 0]);
        check(5, &[(0, 0), (0, 2)], &[0, 2]);
        check(5, &[], &[]);
        check(0, &[(0, 5)], &[0]);
    }
}
