//! The reached limit of a run in short form, and the option that raises it.

use std::fmt;

use ralph_shared::agents::prices::usd_text;

use crate::budget::{SMALLEST_MICROUSD, SMALLEST_TOKENS};
use crate::run::Run;
use crate::run::end;

/// A limit of a run that is used up so far that no session can start.
#[derive(Debug, Clone, PartialEq)]
pub enum Reached {
    /// US dollars; `about` when some of it is estimated.
    Cost {
        used: f64,
        max: f64,
        about: bool,
    },
    Tokens {
        used: i64,
        max: i64,
    },
    /// Milliseconds.
    Time {
        used: i64,
        max: i64,
    },
    Iterations {
        used: i32,
        max: i32,
    },
    /// The feature's deadline, at which its run ends.
    Deadline,
}

/// The limit of `run` that is reached at its own `now`.
pub fn reached(run: &Run) -> Option<Reached> {
    let limits = &run.settings;
    if let Some(max) = limits.max_cost_usd.filter(|_| end::lacks_cost(run)) {
        let about = run.estimated_usd > 0.0;
        let used = run.used_usd();
        return Some(Reached::Cost { used, max, about });
    }
    if let Some(max) = limits.max_tokens.filter(|_| end::lacks_tokens(run)) {
        let used = run.used_tokens();
        return Some(Reached::Tokens { used, max });
    }
    let used = run.took_ms(run.now);
    if let Some(max) = limits.max_time_ms.filter(|max| used >= *max) {
        return Some(Reached::Time { used, max });
    }
    if run.stop_at_deadline && run.deadline.is_some_and(|deadline| deadline <= run.now) {
        return Some(Reached::Deadline);
    }
    let used = run.iterations;
    let max = limits.max_iterations.filter(|max| used >= *max)?;
    Some(Reached::Iterations { used, max })
}

/// The option that allows as much again as the present limit, and at least enough for a session to start.
pub fn raised_cost(used: f64, max: f64) -> String {
    let more = max.max(SMALLEST_MICROUSD as f64 / 1e6);
    format!("--max-cost {:.2}", ((used + more) * 100.0 - 1e-6).ceil() / 100.0)
}

/// The same in tokens.
pub fn raised_tokens(used: i64, max: i64) -> String {
    format!("--max-tokens {}", used.saturating_add(max.max(SMALLEST_TOKENS)))
}

impl Reached {
    /// The option of `feature edit` that allows as much again as the present limit.
    pub fn raised(&self) -> String {
        match self {
            Self::Cost { used, max, .. } => raised_cost(*used, *max),
            Self::Tokens { used, max } => raised_tokens(*used, *max),
            Self::Time { used, max } => {
                let seconds = used.saturating_add(*max) / 1_000 + 1;
                format!("--max-time {seconds}s")
            }
            Self::Iterations { used, max } => format!("--limit {}", used.saturating_add(*max)),
            Self::Deadline => "--deadline 24h".to_owned(),
        }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost { used, max, about } => {
                write!(f, "cost {} of {}", usd_text(*used, *about), usd_text(*max, false))
            }
            Self::Tokens { used, max } => write!(f, "{used} of {max} tokens"),
            Self::Time { used, max } => write!(f, "time {} of {}", seconds(*used), seconds(*max)),
            Self::Iterations { used, max } => write!(f, "{used} of {max} iterations"),
            Self::Deadline => f.write_str("the deadline passed"),
        }
    }
}

/// A time in its largest two units.
fn seconds(ms: i64) -> String {
    match ms / 1_000 {
        s @ ..60 => format!("{s}s"),
        s @ 60..3_600 => format!("{}m{:02}s", s / 60, s % 60),
        s => format!("{}h{:02}m", s / 3_600, s % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reached_limit_has_a_short_form_and_an_option_that_raises_it() {
        let check = |reached: Reached, words: &str, flag: &str| {
            assert_eq!(
                (reached.to_string().as_str(), reached.raised().as_str()),
                (words, flag)
            );
        };
        let cost = |about| Reached::Cost {
            used: 0.6,
            max: 0.5,
            about,
        };
        check(cost(false), "cost 0.60 of 0.50", "--max-cost 1.10");
        let little = Reached::Cost {
            used: 1.2,
            max: 0.01,
            about: false,
        };
        check(little, "cost 1.20 of 0.01", "--max-cost 1.25");
        check(cost(true), "cost ~0.60 of 0.50", "--max-cost 1.10");
        let tokens = Reached::Tokens {
            used: 1_200,
            max: 1_000,
        };
        check(tokens, "1200 of 1000 tokens", "--max-tokens 21200");
        let time = Reached::Time {
            used: 5_400_000,
            max: 3_600_000,
        };
        check(time, "time 1h30m of 1h00m", "--max-time 9001s");
        check(
            Reached::Iterations { used: 20, max: 20 },
            "20 of 20 iterations",
            "--limit 40",
        );
        check(Reached::Deadline, "the deadline passed", "--deadline 24h");
    }
}
