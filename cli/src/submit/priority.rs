//! Flags of a feature's precedence over others.

use clap::Args;
use clap::builder::BoolishValueParser;
use ralph_api::body::PrecedenceOptions;
use ralph_domain::scheduling::concurrency::Concurrency;

use crate::terminal::moment::moment_or_none;

/// Precedence over other features
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Precedence over other features")]
pub struct PrecedenceFlags {
    /// Share of the slots relative to other features: with 3, three times as many as with 1 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=1000))]
    weight: Option<i32>,
    /// Deadline: 2026-12-01T08:00+01:00, "2026-12-01 08:00" or 6h; `none` removes it. The earliest goes
    /// first
    #[arg(long, value_name = "TIME", value_parser = moment_or_none)]
    deadline: Option<String>,
    /// End its run at the deadline, as a limit does
    #[arg(long, value_name = "YES|NO", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          value_parser = BoolishValueParser::new())]
    stop_at_deadline: Option<bool>,
    /// Start none of its tasks before this time; `none` removes it
    #[arg(long, value_name = "TIME", value_parser = moment_or_none)]
    not_before: Option<String>,
    /// Run at most LIMIT sessions of its tasks at once, over all features with this KEY; the last given
    /// limit applies to all
    #[arg(long, value_name = "KEY=LIMIT")]
    concurrency: Option<Concurrency>,
}

impl From<PrecedenceFlags> for PrecedenceOptions {
    fn from(flags: PrecedenceFlags) -> Self {
        Self {
            weight: flags.weight,
            not_before: flags.not_before,
            deadline: flags.deadline,
            stop_at_deadline: flags.stop_at_deadline,
            concurrency: flags.concurrency,
        }
    }
}
