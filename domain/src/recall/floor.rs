//! The confidence below which nothing is shown.
//!
//! The confidence that an answer needs depends on the memory: its size, the length of its texts and their
//! repetitions. So the memory is queried with its own entries, each among older ones, since they resemble the
//! tasks that they came from. The floor is the confidence that 93 of 100 of them reach.

/// A memory smaller than this is not calibrated.
pub const CALIBRATION_DOCS: i64 = 100;
/// Size from which the calibrated floor alone applies.
const TRUSTED_DOCS: i64 = 500;
/// Share of its own entries that a memory may leave unanswered.
pub const UNANSWERED: f64 = 0.065;
/// The floor of a small memory: one of the title's words, and something more.
const SMALL: f64 = 3.5;
/// Enough confidence in any memory, however much its entries repeat each other: one of 19 histories needs
/// more.
const ENOUGH: f64 = 9.0;

/// The floor of one memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Floor(f64);

impl Floor {
    /// The floor of a memory with `entries` entries, and its calibration, if any.
    pub fn of(entries: i64, calibrated: Option<f64>) -> Self {
        let Some(calibrated) = calibrated else {
            return Self(SMALL);
        };
        Self(SMALL + (calibrated.min(ENOUGH) - SMALL) * trust(entries))
    }

    /// Whether an answer may be shown.
    pub fn admits(self, confidence: f64) -> bool {
        confidence >= self.0
    }

    pub fn confidence(self) -> f64 {
        self.0
    }
}

/// Weight of the calibration of a memory with `entries` entries: 0 to 1.
pub(super) fn trust(entries: i64) -> f64 {
    let span = (TRUSTED_DOCS - CALIBRATION_DOCS) as f64;
    ((entries - CALIBRATION_DOCS) as f64 / span).clamp(0.0, 1.0)
}

/// The floor that leaves the share `unanswered` of `confidences` below it; `None` without any.
pub fn quantile_floor(mut confidences: Vec<f64>, unanswered: f64) -> Option<f64> {
    confidences.sort_by(f64::total_cmp);
    let at = (confidences.len() as f64 * unanswered) as usize;
    confidences.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_grows_from_the_small_one_to_the_calibrated_one() {
        let check = |entries, calibrated, expected| {
            assert_eq!(
                Floor::of(entries, calibrated).confidence(),
                expected,
                "{entries} {calibrated:?}"
            )
        };
        check(3, None, SMALL);
        check(100_000, None, SMALL);
        check(100, Some(6.0), SMALL);
        check(300, Some(6.0), 4.75);
        check(500, Some(6.0), 6.0);
        check(1_000_000, Some(6.0), 6.0);
        check(1_000_000, Some(20.0), ENOUGH);
        let hundred = (0..100).map(f64::from).collect();
        assert_eq!(quantile_floor(hundred, UNANSWERED), Some(6.0));
        assert_eq!(quantile_floor(Vec::new(), UNANSWERED), None);
    }
}
