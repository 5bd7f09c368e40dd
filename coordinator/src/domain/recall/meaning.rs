//! What an outside model says of how near entries are to a question, as one more view of the best hits. The confidence in an
//! answer, and with it whether it is shown, rests on words alone: a vector is near to something always.

use std::collections::HashMap;

use uuid::Uuid;

use super::rank::Ranking;

/// Hits that are looked at again.
pub const LOOKED_AT: usize = 60;
/// What the nearest of them gains over the farthest: as much as half of the words.
const WEIGHT: f64 = 0.5;

impl Ranking {
    /// Entries whose vectors matter.
    pub fn nearest(&self) -> impl Iterator<Item = Uuid> {
        self.hits.iter().take(LOOKED_AT).map(|hit| hit.entry)
    }

    /// The same with the best hits in the order that their vectors give as well. One without a vector counts as the farthest.
    #[must_use]
    pub fn with_meaning(mut self, question: &[f32], vectors: &HashMap<Uuid, Vec<f32>>) -> Self {
        let near: HashMap<Uuid, f64> = self
            .nearest()
            .filter_map(|entry| Some((entry, cosine(question, vectors.get(&entry)?)?)))
            .collect();
        let most = near.values().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = near.values().copied().fold(f64::INFINITY, f64::min);
        if most <= least {
            return self;
        }
        for hit in self.hits.iter_mut().take(LOOKED_AT) {
            hit.parts.meaning = near
                .get(&hit.entry)
                .map_or(0.0, |near| (near - least) / (most - least));
            hit.score += WEIGHT * hit.parts.meaning;
        }
        self.hits.sort_by(|one, other| {
            other
                .score
                .total_cmp(&one.score)
                .then(other.entry.cmp(&one.entry))
        });
        self
    }
}

/// Of vectors of length 1; `None` when they can't be compared.
fn cosine(one: &[f32], other: &[f32]) -> Option<f64> {
    (one.len() == other.len()).then(|| one.iter().zip(other).map(|(a, b)| f64::from(a * b)).sum())
}

#[cfg(test)]
mod tests {
    use super::super::rank::{Hit, Parts};
    use super::*;

    fn ranking(scores: &[f64]) -> Ranking {
        let hits = scores.iter().zip(1..).map(|(score, id)| Hit {
            entry: Uuid::from_u128(id),
            score: *score,
            parts: Parts::default(),
        });
        Ranking {
            hits: hits.collect(),
            confidence: 3.0,
        }
    }

    #[track_caller]
    fn check(scores: &[f64], vectors: &[(u128, [f32; 2])], order: &[u128]) {
        let vectors = vectors
            .iter()
            .map(|(id, vector)| (Uuid::from_u128(*id), vector.to_vec()))
            .collect();
        let ranking = ranking(scores).with_meaning(&[1.0, 0.0], &vectors);
        let found: Vec<u128> = ranking.hits.iter().map(|hit| hit.entry.as_u128()).collect();
        assert_eq!((found.as_slice(), ranking.confidence), (order, 3.0));
    }

    #[test]
    fn near_entries_rise_and_nothing_changes_without_vectors() {
        check(&[1.0, 0.9, 0.8], &[], &[1, 2, 3]);
        check(&[1.0, 0.9], &[(1, [1.0, 0.0])], &[1, 2]);
        check(&[1.0, 0.9], &[(1, [0.0, 1.0]), (2, [1.0, 0.0])], &[2, 1]);
        check(&[2.0, 0.9], &[(1, [0.0, 1.0]), (2, [1.0, 0.0])], &[1, 2]);
        check(&[1.0, 0.9, 0.95], &[(1, [0.0, 1.0]), (2, [1.0, 0.0])], &[2, 1, 3]);
    }

    #[test]
    fn vectors_of_another_model_are_passed_over() {
        let vectors = HashMap::from([
            (Uuid::from_u128(1), vec![1.0, 0.0, 0.0]),
            (Uuid::from_u128(2), vec![0.0, 1.0, 0.0]),
        ]);
        let before = ranking(&[1.0, 0.9]);
        assert_eq!(before.clone().with_meaning(&[1.0, 0.0], &vectors), before);
    }
}
