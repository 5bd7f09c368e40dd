//! `.ralph.toml`: the tables that the coordinator and its commands read (SPEC 8).

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ralph_domain::routing::strategy::Tier;
use ralph_domain::run::Ceilings;
use ralph_domain::train::Landing;
use ralph_shared::agents::prices::Prices;
use ralph_shared::config::nearest;
use ralph_shared::config::{Reader, Workspace, toml, words};
use ralph_shared::config_table;
use ralph_shared::trust::{self, Consents};
use serde::Deserialize;

use super::budgets::Budgets;
use super::memory::Memory;
use super::questions::Questions;
use super::repositories::RepositoriesTable;
use super::retention::Retention;
use super::shares::Shares;
use super::telemetry::Telemetry;
use super::unknown::{unknown, warn};

/// The file's name; the search covers the current folder and those above.
const NAME: &str = ".ralph.toml";

/// The file's content. Everything is optional; flags and `RALPH_*` variables win over it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Config {
    /// `[execution]`: of a run, read by the client when it submits.
    pub execution: Execution,
    /// `[models]`: read by the coordinator.
    pub models: Models,
    /// `[limits]`: of a run, read by the client when it submits.
    pub limits: Limits,
    /// `[memory]`: read by the coordinator.
    pub memory: Memory,
    /// `[verify]`: of a run, read by the client when it submits.
    pub verify: Verify,
    /// `[api]`: read by the coordinator.
    pub api: Api,
    /// `[ceilings]`: read by the coordinator.
    pub ceilings: CeilingsTable,
    /// `[shares]`: read by the coordinator.
    pub shares: Shares,
    /// `[budgets]`: read by the coordinator.
    pub budgets: Budgets,
    /// `[prices]`: read by the coordinator.
    pub prices: Prices,
    /// `[notify]`: read by the coordinator.
    pub notify: NotifyTable,
    /// `[workspace]`, except the worker's keys: read by the client when it submits.
    pub workspace: Workspace,
    /// `[telemetry]`: read by the coordinator.
    pub telemetry: Telemetry,
    /// `[retention]`: read by the coordinator.
    pub retention: Retention,
    /// `[questions]`: read by the coordinator.
    pub questions: Questions,
    /// `[repositories]`: read by the coordinator.
    pub repositories: RepositoriesTable,
}

config_table! {
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["execution", Run]
    pub struct Execution {
        /// Retries of a task, then a person is asked (execution.review)
        max_retries: Option<i32> = toml("3").var("RALPH_MAX_RETRIES").flag("max-retries"),
        /// Whether another session judges each attempt
        verify: Option<bool> = toml("true").var("RALPH_NO_VERIFY").flag("no-verify"),
        /// Whether a task that only a person can move on waits for one, or fails for good
        review: Option<bool> = toml("true").var("RALPH_NO_REVIEW").flag("no-review"),
        /// Whether tasks that change the same paths run one after the other
        avoid_conflicts: Option<bool> = toml("false").var("RALPH_AVOID_CONFLICTS").flag("avoid-conflicts"),
        /// Failures in a row after which the prompt says that the task is stuck
        stuck_threshold: Option<i16> = toml("3").read_by(Reader::Coordinator),
    }
}

config_table! {
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["verify", Run]
    pub struct Verify {
        /// Commands that must succeed on exactly the commit that lands
        commands: Vec<String> = toml("[]").var("RALPH_GATE_COMMAND").flag("gate"),
        /// Further commands of the gate: name, command, timeout, parallel
        steps: Vec<VerifyStep> = toml("[]"),
        /// Paths whose change a person approves before it lands; [] is none
        protect: Option<Vec<String>> = words("CI workflows and git hooks").var("RALPH_PROTECT").flag("protect"),
        /// How attempts that passed land: each, batch, serial
        landing: Option<Landing> = toml("'each'").var("RALPH_LANDING").flag("landing"),
        /// Gate checks that run ahead of their turn at once; 0 is none
        max_speculation: Option<i32> = toml("8"),
        /// Reruns of a failed gate on the same commit
        retries: Option<i32> = toml("0"),
    }
}

/// `[[verify.steps]]`: a command of the gate.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyStep {
    /// Name in reports of times; defaults to the command.
    pub name: Option<String>,
    pub command: String,
    /// Time limit: `timeout = "5m"`.
    pub timeout: Option<String>,
    /// Whether it runs in parallel with the step before it.
    #[serde(default)]
    pub parallel: bool,
}

config_table! {
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["api", Coordinator]
    pub struct Api {
        /// Requests per second for each token; 0 is no limit
        requests_per_second: Option<u32> = toml("500"),
        /// Connections to the API at once, further ones wait; 0 is no limit
        max_connections: Option<u32> = toml("800"),
        /// Host names under which browsers reach the page, for example behind a proxy
        hosts: Vec<String> = words("localhost and addresses"),
    }
}

config_table! {
    /// `[ceilings]`: upper bounds of every run's limits.
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["ceilings", Coordinator]
    pub struct CeilingsTable {
        /// Highest iteration limit of a run
        iterations: Option<i32> = words("no bound"),
        /// Highest wall time limit of a run, in hours
        max_time_hours: Option<u32> = words("no bound"),
        /// Highest cost limit of a run, in USD
        max_cost: Option<f64> = words("no bound"),
        /// Highest token limit of a run, in and out
        max_tokens: Option<i64> = words("no bound"),
    }
}

impl CeilingsTable {
    /// # Errors
    /// When a bound is 0, negative or not a number.
    pub fn checked(&self) -> anyhow::Result<Ceilings> {
        let bad = match self {
            Self {
                iterations: Some(n), ..
            } if *n < 1 => Some("iterations"),
            Self {
                max_time_hours: Some(0),
                ..
            } => Some("max_time_hours"),
            Self {
                max_cost: Some(usd), ..
            } if usd.is_nan() || *usd <= 0.0 => Some("max_cost"),
            Self {
                max_tokens: Some(n), ..
            } if *n < 1 => Some("max_tokens"),
            _ => None,
        };
        if let Some(key) = bad {
            anyhow::bail!("ceilings.{key} must be more than 0; leave it out for none");
        }
        Ok(Ceilings {
            iterations: self.iterations,
            time_ms: self.max_time_hours.map(|hours| i64::from(hours) * 3_600_000),
            cost_usd: self.max_cost,
            tokens: self.max_tokens,
        })
    }
}

config_table! {
    #[derive(Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["notify", Coordinator]
    pub struct NotifyTable {
        /// URL to which notifications are posted
        url: Option<String> = words("no notifications").secret(),
        /// Key that signs notifications, or file:PATH
        secret: Option<String> = words("not signed").var("RALPH_NOTIFY_SECRET").secret(),
        /// Command to run with each notification on its standard input
        command: Option<String> = words("none"),
        /// Events that send a notification
        events: Vec<String> = toml("['run_ended', 'person_needed', 'pool_paused', 'deadline_passed', 'budget_used', 'worker_drained']"),
    }
}

impl std::fmt::Debug for NotifyTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NotifyTable")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

config_table! {
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["models", Coordinator]
    pub struct Models {
        /// Tiers of models, weakest first, with each tier's model names by agent
        tiers: Vec<Tier> = toml("[{ name = 'haiku' }, { name = 'sonnet' }, { name = 'opus' }]"),
    }
}

config_table! {
    /// `[limits]`; 0 is no limit.
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["limits", Run]
    pub struct Limits {
        /// Iterations of a run
        iterations: Option<i64> = words("20, and 5 for each task").var("RALPH_LIMIT").flag("limit"),
        /// Wall time of a run
        max_time: Option<String> = toml("'24h'").var("RALPH_MAX_TIME").flag("max-time"),
        /// Cost of a run in USD
        max_cost: Option<f64> = toml("20.0").var("RALPH_MAX_COST").flag("max-cost"),
        /// Tokens of a run, in and out
        max_tokens: Option<i64> = words("no limit").var("RALPH_MAX_TOKENS").flag("max-tokens"),
        /// Wall time of a session
        session_time: Option<String> = toml("'60m'").var("RALPH_SESSION_TIME").flag("session-time"),
        /// Longest silence of an agent
        idle_time: Option<String> = toml("'10m'").var("RALPH_IDLE_TIME").flag("idle-time"),
        /// Output of a session in MB
        session_output_mb: Option<i64> = toml("50"),
        /// Pause after a task's first failure, doubled by each up to 10 minutes
        backoff: Option<String> = toml("'10s'").var("RALPH_BACKOFF").flag("backoff"),
        /// Sessions of a feature at once
        max_parallel: Option<i32> = toml("4").var("RALPH_MAX_PARALLEL").flag("max-parallel"),
    }
}

impl Config {
    /// Reads the file that `RALPH_CONFIG` names, else the nearest one in or above the current folder;
    /// without one, uses the defaults.
    ///
    /// # Errors
    /// When the file is unreadable, or is neither named nor approved by the user.
    pub fn find() -> anyhow::Result<Self> {
        let Some(path) = Self::locate()? else {
            return Ok(Self::default());
        };
        let text = Self::text(&path)?;
        if !Self::is_named() {
            Consents::of_user().require(&path, &text)?;
        }
        Self::read_text(&path, &text)
    }

    /// The file that `RALPH_CONFIG` names, else the nearest one in or above the current folder.
    ///
    /// # Errors
    /// When the current folder is unknown, or the file is another user's.
    pub fn locate() -> anyhow::Result<Option<PathBuf>> {
        if let Some(named) = named() {
            return Ok(Some(named));
        }
        let here = std::env::current_dir().context("failed to find the current folder")?;
        Ok(nearest(&here, NAME)?)
    }

    /// Whether the user named the file, which counts as approval of its content.
    pub fn is_named() -> bool {
        named().is_some()
    }

    pub fn text(path: &Path) -> anyhow::Result<String> {
        Ok(trust::read(path)?)
    }

    /// Reads a file and warns of unknown keys.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::read_text(path, &Self::text(path)?)
    }

    fn read_text(path: &Path, text: &str) -> anyhow::Result<Self> {
        let (config, unknown) =
            Self::parse(text).with_context(|| format!("{} can't be used", path.display()))?;
        for key in unknown {
            warn(path, &key);
        }
        Ok(config)
    }

    /// Parses a text; returns the unknown keys too.
    pub fn parse(text: &str) -> anyhow::Result<(Self, Vec<String>)> {
        let table: toml::Table = text.parse()?;
        let unknown = unknown(&table);
        Ok((table.try_into()?, unknown))
    }
}

fn named() -> Option<PathBuf> {
    let named = std::env::var_os("RALPH_CONFIG").filter(|name| !name.is_empty());
    named.map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_error_names_the_key_with_the_wrong_value() {
        let error = Config::parse("[execution]\nmax_retries = \"many\"").unwrap_err();
        assert!(format!("{error:#}").contains("max_retries"), "{error:#}");
    }
}
