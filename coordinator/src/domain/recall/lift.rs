//! The benefit of memory: attempts that had it against held-out ones.

/// 95 % of a normal distribution lie within so many standard deviations.
const Z: f64 = 1.96;

/// Attempts of one kind that ended: how many, and how many of them landed.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
pub struct Ended {
    /// Verified and landed.
    pub landed: i64,
    /// Landed or failed.
    pub ended: i64,
}

/// A difference of two shares with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct Lift {
    /// Share that landed with memory, less the share without. -1 to 1.
    pub difference: f64,
    /// The interval's ends.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

impl Ended {
    /// The share that landed; `None` without any.
    pub fn share(self) -> Option<f64> {
        (self.ended > 0).then(|| self.landed as f64 / self.ended as f64)
    }

    /// Wilson's interval of the share.
    fn interval(self) -> (f64, f64) {
        let n = self.ended as f64;
        let p = self.landed as f64 / n;
        let middle = p + Z * Z / (2.0 * n);
        let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        let whole = 1.0 + Z * Z / n;
        ((middle - half) / whole, (middle + half) / whole)
    }
}

/// The lift by Newcombe's method, which holds for small numbers too; `None` while one side has none.
pub fn lift(with: Ended, without: Ended) -> Option<Lift> {
    let (p, q) = (with.share()?, without.share()?);
    let ((p_low, p_high), (q_low, q_high)) = (with.interval(), without.interval());
    let difference = p - q;
    Some(Lift {
        difference,
        // Sums of rounded numbers may leave the range by a last digit.
        low: (difference - ((p - p_low).powi(2) + (q_high - q).powi(2)).sqrt()).max(-1.0),
        high: (difference + ((p_high - p).powi(2) + (q - q_low).powi(2)).sqrt()).min(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_newcombes() {
        // Newcombe 1998, table II: 56/70 against 48/80 gives 0.0524 to 0.3339.
        let ended = |landed, ended| Ended { landed, ended };
        let lift = lift(ended(56, 70), ended(48, 80)).unwrap();
        assert!((lift.difference - 0.2).abs() < 1e-9);
        assert!(
            (lift.low - 0.0524).abs() < 1e-4 && (lift.high - 0.3339).abs() < 1e-4,
            "{lift:?}"
        );
        assert_eq!(super::lift(ended(1, 2), ended(0, 0)), None);
        for n in 1..50 {
            let lift = super::lift(ended(n, n), ended(0, n)).unwrap();
            assert!(lift.low >= -1.0 && lift.high <= 1.0, "{lift:?}");
        }
    }
}
