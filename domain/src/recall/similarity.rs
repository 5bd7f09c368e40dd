//! Gives cosines a meaning. They differ between models and memories, so none is near or far by itself. A
//! memory is queried with its own entries, as for its [`super::Floor`]. The mean nearness of their answers is
//! the usual one, and deviations from it are scaled to those of words.

use super::floor::{quantile_floor, trust};

/// Share of its own entries that a memory may leave unanswered. It is smaller than by words alone, since
/// vectors distinguish the others better. With this value, as many questions without an answer get none, over
/// nine histories and two models.
const UNANSWERED: f64 = 0.055;
/// Cosines with a smaller deviation differ by rounding only.
const LEAST: f64 = 1e-6;

/// Properties of one model's vectors in one memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearness {
    /// The mean of its entries' vectors: their common part distinguishes no entry.
    pub centre: Vec<f32>,
    /// Mean nearness of answers to its own entries: a cosine.
    pub usual: f64,
    /// Confidence per cosine, scaled so that it deviates as much as that of words.
    pub weight: f64,
    /// The confidence that 94 of 100 of its own entries reach.
    pub floor: f64,
}

/// The answer to one of a memory's own entries among older ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Own {
    /// Confidence in the answer by its words.
    pub confidence: f64,
    /// Nearness of the answer: a cosine.
    pub near: f64,
}

impl Nearness {
    /// Computes the properties for a memory with this centre; `None` when all of its entries are equally
    /// near.
    pub fn of(centre: Vec<f32>, own: &[Own]) -> Option<Self> {
        let (_, words) = spread(own.iter().map(|one| one.confidence));
        let (usual, varies) = spread(own.iter().map(|one| one.near));
        if varies < LEAST {
            return None;
        }
        let weight = words / varies;
        let both = own.iter().map(|one| one.confidence + weight * (one.near - usual));
        let floor = quantile_floor(both.collect(), UNANSWERED)?;
        (weight.is_finite() && floor.is_finite()).then_some(Self {
            centre,
            usual,
            weight,
            floor,
        })
    }

    /// Confidence in an answer of a memory with `entries` entries, by its words and its nearness. Nearness
    /// has the same weight as the calibration of the floor.
    pub fn confidence(&self, entries: i64, words: f64, near: f64) -> f64 {
        words + trust(entries) * self.weight * (near - self.usual)
    }
}

/// The mean of vectors, each as long as the first; empty without any.
pub fn centre<'v>(vectors: impl IntoIterator<Item = &'v Vec<f32>>) -> Vec<f32> {
    let mut sum: Vec<f64> = Vec::new();
    let mut count = 0.0;
    for vector in vectors {
        sum.resize(vector.len(), 0.0);
        for (sum, value) in sum.iter_mut().zip(vector) {
            *sum += f64::from(*value);
        }
        count += 1.0;
    }
    sum.into_iter().map(|sum| (sum / count) as f32).collect()
}

/// Mean and standard deviation.
fn spread(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(confidence: f64, near: f64) -> Own {
        Own { confidence, near }
    }

    #[test]
    fn vectors_count_as_much_as_words_at_any_scale() {
        for scale in [1.0, 0.1] {
            let all: Vec<Own> = (0..100)
                .map(|n| own(8.0 + f64::from(n % 10), 0.5 + scale * f64::from(n / 10) / 10.0))
                .collect();
            let nearness = Nearness::of(vec![0.5], &all).unwrap();
            assert!((nearness.usual - 0.5 - scale * 0.45).abs() < 1e-9);
            assert!((nearness.weight - 10.0 / scale).abs() < 1e-9, "{nearness:?}");
            // The sums range from 3.5 to 21.5; three of the hundred are below 5.5.
            assert!((nearness.floor - 5.5).abs() < 1e-9, "{nearness:?}");
            let near = nearness.usual + scale * 0.2;
            assert!((nearness.confidence(1_000, 9.0, near) - 11.0).abs() < 1e-9);
            assert!((nearness.confidence(300, 9.0, near) - 10.0).abs() < 1e-9);
            assert!((nearness.confidence(100, 9.0, near) - 9.0).abs() < 1e-9);
        }
    }

    #[test]
    fn equally_near_entries_give_no_nearness() {
        assert_eq!(Nearness::of(vec![1.0], &[]), None);
        let alike: Vec<Own> = (0..10).map(|n| own(f64::from(n), 0.3)).collect();
        assert_eq!(Nearness::of(vec![1.0], &alike), None);
        assert_eq!(
            Nearness::of(vec![1.0], &[own(9.0, f64::NAN), own(8.0, 0.5)]),
            None
        );
    }

    #[test]
    fn the_centre_is_the_mean_of_the_vectors() {
        assert_eq!(centre(&[vec![1.0, 0.0], vec![0.0, 0.5]]), [0.5, 0.25]);
        assert_eq!(centre(&Vec::<Vec<f32>>::new()), [0.0_f32; 0]);
    }
}
