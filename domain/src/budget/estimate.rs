//! Estimates cost and time of tasks from similar earlier ones.

use serde::{Deserialize, Serialize};

/// Fewest tasks with known values that allow an estimate.
const FEWEST: i64 = 3;

/// Finished tasks of a repository, with all of their attempts and verifications.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Before {
    /// Number of tasks whose cost is known.
    pub priced: i64,
    /// Number of tasks with known values.
    pub tasks: i64,
    /// Upper bounds of the cheapest fifth, and of four fifths. US dollars.
    pub usd: Option<(f64, f64)>,
    /// The same for their sessions' time. Milliseconds.
    pub ms: Option<(f64, f64)>,
}

/// A range, from the upper bound of the lowest fifth to that of the lowest four fifths of similar tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Range {
    pub low: f64,
    pub high: f64,
}

/// An estimate; unknown values are null.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Estimate {
    /// Number of tasks that the estimate covers.
    pub tasks: i64,
    /// Number of earlier tasks of the repository that the estimate is based on.
    pub based_on: i64,
    /// US dollars.
    pub cost_usd: Option<Range>,
    /// Milliseconds.
    pub time_ms: Option<Range>,
}

/// The estimate for `tasks` remaining tasks, of which `side_by_side` run in parallel.
pub fn estimate(before: Before, tasks: i64, side_by_side: i64) -> Estimate {
    let times = |range: Option<(f64, f64)>, known: i64, n: f64| {
        let (low, high) = range.filter(|_| known >= FEWEST)?;
        Some(Range {
            low: low * n,
            high: high * n,
        })
    };
    let one_after_another = tasks
        .max(0)
        .unsigned_abs()
        .div_ceil(side_by_side.max(1).unsigned_abs());
    Estimate {
        tasks,
        based_on: before.tasks,
        cost_usd: times(before.usd, before.priced, tasks as f64),
        time_ms: times(before.ms, before.tasks, one_after_another as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_multiplies_the_range_of_one_task() {
        let before = |tasks, priced| Before {
            priced,
            tasks,
            usd: Some((0.5, 2.0)),
            ms: Some((60_000.0, 240_000.0)),
        };
        let check = |before, tasks, side_by_side, cost: Option<(f64, f64)>, time: Option<(f64, f64)>| {
            let actual = estimate(before, tasks, side_by_side);
            let pair = |range: Option<Range>| range.map(|range| (range.low, range.high));
            assert_eq!(
                (pair(actual.cost_usd), pair(actual.time_ms)),
                (cost, time),
                "{before:?}"
            );
        };
        check(before(3, 3), 4, 1, Some((2.0, 8.0)), Some((240_000.0, 960_000.0)));
        check(
            before(9, 9),
            5,
            2,
            Some((2.5, 10.0)),
            Some((180_000.0, 720_000.0)),
        );
        // Too few tasks have known values.
        check(before(2, 2), 4, 1, None, None);
        check(before(5, 1), 1, 0, None, Some((60_000.0, 240_000.0)));
        check(Before::default(), 1, 1, None, None);
    }
}
