//! The benefit of memory: attempts that had it against held-out ones.

/// 95 % of a normal distribution lie within this number of standard deviations.
const Z: f64 = 1.96;

/// Ended attempts of one kind: their number, and how many of them landed.
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
    /// Share that landed with memory, minus the share without. -1 to 1.
    pub difference: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Ended {
    /// The share that landed; `None` if none ended.
    pub fn share(self) -> Option<f64> {
        (self.ended > 0).then(|| self.landed as f64 / self.ended as f64)
    }

    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            landed: self.landed + other.landed,
            ended: self.ended + other.ended,
        }
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

/// The lift by Newcombe's method, which holds for small numbers too; `None` while one side has no attempts.
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

/// One measure of attempts of one kind: the sums that its mean and variance need.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    pub n: i64,
    pub sum: f64,
    pub squares: f64,
}

impl Sums {
    fn mean(self) -> f64 {
        self.sum / self.n as f64
    }

    /// The variance of the mean; needs two values.
    fn variance(self) -> f64 {
        let n = self.n as f64;
        let spread = (self.squares - self.sum * self.sum / n).max(0.0);
        spread / (n - 1.0) / n
    }
}

/// Comparable attempts: of one repository and by one model. With memory, and held out.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stratum {
    pub landed: (Ended, Ended),
    pub iterations: (Sums, Sums),
    pub cost_usd: (Sums, Sums),
    pub seconds: (Sums, Sums),
}

/// The worth of memory, in a word.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
)]
#[schema(as = MemoryWorth)]
#[serde(rename_all = "snake_case")]
pub enum Worth {
    Helps,
    /// The interval contains zero, or there is none.
    #[default]
    NoEvidence,
    Hurts,
}

impl Worth {
    /// The words on screens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Helps => "helps",
            Self::NoEvidence => "no evidence",
            Self::Hurts => "hurts",
        }
    }

    /// The meaning of an interval.
    pub fn of(lift: Option<Lift>) -> Self {
        match lift {
            Some(lift) if lift.low > 0.0 => Self::Helps,
            Some(lift) if lift.high < 0.0 => Self::Hurts,
            _ => Self::NoEvidence,
        }
    }
}

/// The lift over strata, so that a repository with easy tasks, or a good model, favours neither side. The
/// differences within each stratum are weighed as by Mantel and Haenszel. A single stratum has Newcombe's
/// interval.
pub fn pooled_lift(strata: &[Stratum]) -> Option<Lift> {
    let compare: Vec<(Ended, Ended)> = strata
        .iter()
        .map(|stratum| stratum.landed)
        .filter(|(with, without)| with.ended > 0 && without.ended > 0)
        .collect();
    if let [(with, without)] = compare[..] {
        return lift(with, without);
    }
    let (mut weights, mut differences, mut spread) = (0.0, 0.0, 0.0);
    for (with, without) in compare {
        let (n, m) = (with.ended as f64, without.ended as f64);
        let weight = n * m / (n + m);
        // Half an attempt more of each kind gives shares of 0 and 1 a spread too.
        let share = |ended: Ended| (ended.landed as f64 + 0.5) / (ended.ended as f64 + 1.0);
        let variance = |ended: Ended| share(ended) * (1.0 - share(ended)) / ended.ended as f64;
        weights += weight;
        differences += weight * (with.landed as f64 / n - without.landed as f64 / m);
        spread += weight * weight * (variance(with) + variance(without));
    }
    interval(weights, differences, spread).map(|lift| Lift {
        low: lift.low.max(-1.0),
        high: lift.high.min(1.0),
        ..lift
    })
}

/// The difference of means over strata: with memory, minus without.
pub fn pooled_difference(strata: impl IntoIterator<Item = (Sums, Sums)>) -> Option<Lift> {
    let (mut weights, mut differences, mut spread) = (0.0, 0.0, 0.0);
    for (with, without) in strata {
        if with.n < 2 || without.n < 2 {
            continue;
        }
        let (n, m) = (with.n as f64, without.n as f64);
        let weight = n * m / (n + m);
        weights += weight;
        differences += weight * (with.mean() - without.mean());
        spread += weight * weight * (with.variance() + without.variance());
    }
    interval(weights, differences, spread)
}

fn interval(weights: f64, differences: f64, spread: f64) -> Option<Lift> {
    (weights > 0.0).then(|| {
        let (difference, half) = (differences / weights, Z * spread.sqrt() / weights);
        Lift {
            difference,
            low: difference - half,
            high: difference + half,
        }
    })
}

/// Half of the target interval: ±10 points.
const TARGET_HALF_WIDTH: f64 = 0.1;
/// Larger numbers of attempts are not considered.
const MOST_NEEDED: i64 = 1_000_000;

/// Number of further first attempts until the lift is known to ±10 points, if the share `held_out` of them is
/// held out; `None` if none or all are.
pub fn needed(with: Ended, without: Ended, held_out: f64) -> Option<i64> {
    let share = |ended: Ended| (ended.landed as f64 + 1.0) / (ended.ended as f64 + 2.0);
    let variance = |ended: Ended| share(ended) * (1.0 - share(ended));
    let half = |more: i64| {
        let side = |ended: Ended, part: f64| variance(ended) / (ended.ended as f64 + more as f64 * part);
        Z * (side(with, 1.0 - held_out) + side(without, held_out)).sqrt()
    };
    if held_out <= 0.0 || held_out >= 1.0 {
        return None;
    }
    let (mut low, mut high) = (0, MOST_NEEDED);
    while low < high {
        let middle = low + (high - low) / 2;
        if half(middle) <= TARGET_HALF_WIDTH {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

/// The share of eligible attempts that is held out at first, and the number of held-out attempts until it
/// falls.
const FIRST_SHARE: f64 = 0.25;
const FIRST: i64 = 50;
/// Maximum number of held-out attempts that are counted. From this number on, a lasting share of a twentieth
/// applies unchanged.
pub const HELD_OUT_COUNTED: i64 = 1_000;

/// The share of first attempts to hold out, in a memory with `held_out` such attempts: a quarter for the
/// first fifty, then falling to the lasting share.
pub fn held_out_share(held_out: i64, lasting: f64) -> f64 {
    if lasting <= 0.0 {
        return 0.0;
    }
    let grown = held_out.max(FIRST) as f64 / FIRST as f64;
    (FIRST_SHARE / grown).max(lasting)
}

/// Number of ended attempts of each kind before a memory may be switched off for hurting.
const ENOUGH_TO_SWITCH: i64 = 20;

/// Whether a memory must be reduced to facts that the system knows itself.
pub fn is_harmful(strata: &[Stratum]) -> bool {
    let (mut with, mut without) = (0, 0);
    for stratum in strata {
        with += stratum.landed.0.ended;
        without += stratum.landed.1.ended;
    }
    with.min(without) >= ENOUGH_TO_SWITCH && Worth::of(pooled_lift(strata)) == Worth::Hurts
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

    fn stratum(with: (i64, i64), without: (i64, i64)) -> Stratum {
        let ended = |(landed, ended)| Ended { landed, ended };
        Stratum {
            landed: (ended(with), ended(without)),
            ..Stratum::default()
        }
    }

    #[test]
    fn strata_remove_the_effect_of_repositories_and_models() {
        // Memory helps in neither stratum; most attempts with memory were at the easy tasks.
        let strata = [stratum((90, 100), (9, 10)), stratum((2, 20), (18, 180))];
        let lift = pooled_lift(&strata).unwrap();
        assert!(
            lift.difference.abs() < 1e-9 && lift.low < 0.0 && lift.high > 0.0,
            "{lift:?}"
        );
        let all = super::lift(
            Ended {
                landed: 92,
                ended: 120,
            },
            Ended {
                landed: 27,
                ended: 190,
            },
        )
        .unwrap();
        assert!(all.low > 0.5, "{all:?}");
        assert_eq!(Worth::of(Some(lift)), Worth::NoEvidence);
        assert_eq!(pooled_lift(&[stratum((1, 2), (0, 0))]), None);
        let one = stratum((56, 70), (48, 80));
        assert_eq!(pooled_lift(&[one]), super::lift(one.landed.0, one.landed.1));
        assert_eq!(Worth::of(pooled_lift(&[one, one])), Worth::Helps);
    }

    #[test]
    fn a_memory_is_switched_off_once_it_is_known_to_hurt() {
        for (strata, expected) in [
            (vec![stratum((10, 100), (40, 50))], true),
            (vec![stratum((0, 10), (10, 10))], false),
            (vec![stratum((40, 50), (40, 50))], false),
            (vec![stratum((5, 40), (15, 20)), stratum((5, 40), (15, 20))], true),
            (vec![], false),
        ] {
            assert_eq!(is_harmful(&strata), expected, "{strata:?}");
        }
    }

    #[test]
    fn means_are_compared_within_strata() {
        let sums = |values: &[f64]| Sums {
            n: values.len() as i64,
            sum: values.iter().sum(),
            squares: values.iter().map(|value| value * value).sum(),
        };
        let strata = [
            (sums(&[1.0, 2.0, 3.0]), sums(&[2.0, 3.0, 4.0])),
            (sums(&[11.0, 12.0, 13.0]), sums(&[12.0, 13.0, 14.0])),
        ];
        let effect = pooled_difference(strata).unwrap();
        assert!((effect.difference + 1.0).abs() < 1e-9, "{effect:?}");
        assert!(effect.low < -2.0 && effect.high < 0.2, "{effect:?}");
        assert_eq!(pooled_difference([(sums(&[1.0]), sums(&[2.0, 3.0]))]), None);
    }

    #[test]
    fn the_held_out_share_falls_after_fifty_attempts() {
        for (held_out, lasting, expected) in [
            (0, 0.05, 0.25),
            (50, 0.05, 0.25),
            (100, 0.05, 0.125),
            (250, 0.05, 0.05),
            (9_000, 0.05, 0.05),
            (0, 0.0, 0.0),
            (0, 1.0, 1.0),
        ] {
            assert_eq!(held_out_share(held_out, lasting), expected, "{held_out}");
        }
    }

    #[test]
    fn fewer_held_out_attempts_need_more_further_ones() {
        let ended = |landed, ended| Ended { landed, ended };
        let few = needed(ended(70, 100), ended(3, 5), 0.05).unwrap();
        let more = needed(ended(700, 1_000), ended(60, 100), 0.05).unwrap();
        assert!(few > 1_000 && more < few, "{few} {more}");
        assert_eq!(needed(ended(700, 1_000), ended(600, 1_000), 0.05), Some(0));
        assert_eq!(needed(ended(1, 2), ended(1, 2), 0.0), None);
    }
}
