//! Divides free slots between features (SPEC 2.3): a feature with 10,000 ready tasks does not starve one with
//! 3.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use ralph_shared::ids::FeatureId;
use time::OffsetDateTime;

/// Most turns by which a feature may lag behind the furthest one: the most sessions that it gets in a row.
const BEHIND: f64 = 4.0;
/// Most features with remembered turns; then all start over.
const REMEMBERED: usize = 10_000;

/// Share of a feature in the slots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    pub feature: FeatureId,
    /// Its running sessions.
    pub running: u32,
    /// Number of sessions that it may start now: by `max_parallel`, its limits, and its known ready tasks.
    pub room: u32,
    /// Its weight; at least 1.
    pub weight: u32,
    /// When it should be finished.
    pub deadline: Option<OffsetDateTime>,
    /// Its started sessions, each divided by its weight ([`Turns`]).
    pub turn: f64,
}

/// Why claims got no task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unserved {
    /// The reason is unknown.
    #[default]
    Unknown,
    /// Ready tasks have no room in their features: each ended session may make room.
    NoRoom,
    /// No task is ready.
    Nothing,
}

/// The turns of features for slots. They decide between features with the same part of the slots, as when
/// there are fewer slots than features.
#[derive(Debug, Default)]
pub struct Turns(HashMap<FeatureId, f64>);

impl Turns {
    /// Fills in the turns of shares. A new feature starts with the lowest one.
    pub fn fill_in(&self, shares: &mut [Share]) {
        let known = || {
            shares
                .iter()
                .filter_map(|share| self.0.get(&share.feature).copied())
        };
        let furthest = known().fold(0.0, f64::max);
        let next = known().fold(furthest, f64::min);
        for share in shares {
            let turn = self.0.get(&share.feature).copied().unwrap_or(next);
            share.turn = turn.max(furthest - BEHIND);
        }
    }

    pub fn note(&mut self, shares: &[Share]) {
        if self.0.len() > REMEMBERED {
            self.0.clear();
        }
        self.0
            .extend(shares.iter().map(|share| (share.feature, share.turn)));
    }
}

/// Gives each slot to the feature with room and the fewest running sessions for its weight. Of several, the
/// one with the earliest deadline goes first, then the one whose turn it is, then the oldest. Returns the
/// number of slots of each feature that gets any.
pub fn divide(slots: u32, shares: &[Share]) -> Vec<(FeatureId, u32)> {
    // Turns are not negative, so their bits have their order.
    let place = |index: usize, given: u32| {
        let share = &shares[index];
        let weight = share.weight.max(1);
        let turn = share.turn + f64::from(given) / f64::from(weight);
        Reverse((
            (share.running + given) / weight,
            (share.deadline.is_none(), share.deadline),
            turn.max(0.0).to_bits(),
            share.feature,
            index,
        ))
    };
    let with_room = (0..shares.len()).filter(|index| shares[*index].room > 0);
    let mut heap: BinaryHeap<_> = with_room.map(|index| place(index, 0)).collect();
    let mut given = vec![0_u32; shares.len()];
    for _ in 0..slots {
        let Some(Reverse((.., index))) = heap.pop() else {
            break;
        };
        given[index] += 1;
        if given[index] < shares[index].room {
            heap.push(place(index, given[index]));
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

    /// Running sessions and room, of features from the oldest to the newest.
    fn shares(of: &[(u32, u32)]) -> Vec<Share> {
        let share = |(i, &(running, room)): (usize, &(u32, u32))| Share {
            feature: FeatureId(uuid::Uuid::from_u128(i as u128)),
            running,
            room,
            weight: 1,
            deadline: None,
            turn: 0.0,
        };
        of.iter().enumerate().map(share).collect()
    }

    fn check(slots: u32, shares: &[Share], expected: &[u32]) {
        let given: HashMap<FeatureId, u32> = divide(slots, shares).into_iter().collect();
        let got = shares
            .iter()
            .map(|share| given.get(&share.feature).copied().unwrap_or(0));
        assert_eq!(got.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn table() {
        check(4, &shares(&[(0, 10_000), (0, 3)]), &[2, 2]);
        check(10, &shares(&[(0, 10_000), (0, 3)]), &[7, 3]);
        check(2, &shares(&[(5, 10), (0, 10)]), &[0, 2]);
        check(1, &shares(&[(0, 1), (0, 1)]), &[1, 0]);
        check(5, &shares(&[(0, 0), (0, 2)]), &[0, 2]);
        check(5, &[], &[]);
        check(0, &shares(&[(0, 5)]), &[0]);
    }

    fn weighted(weights: [u32; 2], of: [(u32, u32); 2]) -> Vec<Share> {
        let mut shares = shares(&of);
        for (share, weight) in shares.iter_mut().zip(weights) {
            share.weight = weight;
        }
        shares
    }

    #[test]
    fn slots_are_shared_by_weight() {
        check(8, &weighted([3, 1], [(0, 99), (0, 99)]), &[6, 2]);
        check(5, &weighted([2, 3], [(0, 99), (0, 99)]), &[2, 3]);
        check(8, &weighted([3, 1], [(0, 1), (0, 99)]), &[1, 7]);
        check(1, &weighted([3, 1], [(2, 99), (1, 99)]), &[1, 0]);
        check(1, &weighted([3, 1], [(3, 99), (0, 99)]), &[0, 1]);
    }

    /// Sessions one after the other, with fewer slots than the sum of the weights.
    #[test]
    fn turns_follow_the_weights_when_slots_are_few() {
        let mut turns = Turns::default();
        let mut got = [0, 0];
        for _ in 0..40 {
            let mut shares = weighted([3, 1], [(0, 99), (0, 99)]);
            turns.fill_in(&mut shares);
            let (feature, _) = divide(1, &shares)[0];
            let of = usize::from(feature == shares[1].feature);
            got[of] += 1;
            shares[of].turn += 1.0 / f64::from(shares[of].weight);
            turns.note(&shares);
        }
        assert_eq!(got, [30, 10]);
    }

    #[test]
    fn a_feature_lags_at_most_four_turns_behind_the_furthest_one() {
        let mut shares = shares(&[(0, 9), (0, 9), (0, 9)]);
        let mut turns = Turns::default();
        shares[0].turn = 100.0;
        turns.note(&shares[..2]);
        turns.fill_in(&mut shares);
        assert_eq!(
            shares.iter().map(|s| s.turn).collect::<Vec<_>>(),
            [100.0, 96.0, 96.0]
        );
    }

    #[test]
    fn an_earlier_deadline_goes_first_among_equal_shares() {
        let mut three = shares(&[(0, 9), (0, 9), (0, 9)]);
        three[1].deadline = Some(OffsetDateTime::UNIX_EPOCH + time::Duration::hours(1));
        three[2].deadline = Some(OffsetDateTime::UNIX_EPOCH);
        check(1, &three, &[0, 0, 1]);
        check(2, &three, &[0, 1, 1]);
        three[2].running = 1;
        check(2, &three, &[1, 1, 0]);
    }
}
