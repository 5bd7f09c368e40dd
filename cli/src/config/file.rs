//! `.ralph.toml`, the part that the coordinator and its commands read (SPEC 8).

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ralph_domain::routing::strategy::Tier;
use ralph_domain::run::Ceilings;
use ralph_domain::train::Landing;
use ralph_shared::agents::prices::Prices;
use ralph_shared::attempts::AttemptPlace;
use ralph_shared::nearest::nearest;
use ralph_shared::trust::{self, Consents};
use ralph_shared::wire::MergeHow;
use serde::Deserialize;

use super::budgets::Budgets;
use super::memory::Memory;
use super::questions::Questions;
use super::repositories::RepositoriesTable;
use super::retention::Retention;
use super::shares::Shares;
use super::telemetry::Telemetry;
use super::unknown::{unknown, warn};

/// The file's name; it is looked for here and in the folders above.
const NAME: &str = ".ralph.toml";

/// What the file says. Everything is optional; flags and `RALPH_*` variables win over it.
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
    /// `[workspace]`, as far as it is no worker's: read by the client when it submits.
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

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Execution {
    /// Retries of a task; 3 when it isn't given.
    pub max_retries: Option<i32>,
    /// Whether attempts are verified; they are when it isn't given.
    pub verify: Option<bool>,
    /// Whether a task that only a person can move on waits for one, or fails for good; it waits when it isn't given.
    pub review: Option<bool>,
    /// Whether tasks that change the same paths run one after the other; they don't when it isn't given.
    pub avoid_conflicts: Option<bool>,
    /// Failures in a row after which an agent is told that its task is stuck; 3 when it isn't given. Read by the
    /// coordinator (SPEC 6.7).
    pub stuck_threshold: Option<i16>,
}

/// `[workspace]`; the rest of it is the workers'.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Workspace {
    /// The identity of the repository, to which memory and names are scoped; its origin's address, normalised, when it
    /// isn't given (SPEC 6.5).
    pub repo_id: Option<String>,
    /// How many days branches of attempts of features that ended stay at the remote; 30 when it isn't given, 0 is for ever.
    /// Read by the coordinator.
    pub keep_attempts_days: Option<u32>,
    /// Whether attempts stand in refs of their own at the remote or in branches; `refs` when it isn't given. Read by the coordinator.
    pub attempts: AttemptPlace,
    /// How finished features come into the branch that they began from; they are left on their own when it isn't given.
    pub merge: Option<MergeHow>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Verify {
    /// Commands that must succeed on exactly the commit that lands: `commands = ["cargo test"]`.
    pub commands: Vec<String>,
    /// Further commands of the gate, with names and times of their own.
    pub steps: Vec<VerifyStep>,
    /// Patterns of paths whose change a person approves before it lands: `protect = ["migrations/**"]`.
    pub protect: Option<Vec<String>>,
    /// How attempts land that passed; `each` when it isn't given.
    pub landing: Option<Landing>,
    /// Most checks of the gate ahead of their turn at once; 8 when it isn't given.
    pub max_speculation: Option<i32>,
    /// How often a gate that failed is tried again on the same commit; never when it isn't given.
    pub retries: Option<i32>,
}

/// `[[verify.steps]]`: a command of the gate.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyStep {
    /// What it is called where its time is told; the command when it isn't given.
    pub name: Option<String>,
    pub command: String,
    /// Longest run: `timeout = "5m"`.
    pub timeout: Option<String>,
    /// Whether it runs at the same time as the one before it.
    #[serde(default)]
    pub parallel: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Api {
    /// How often each token may ask a second in the long run; 500 when it isn't given, 0 is no limit.
    pub requests_per_second: Option<u32>,
    /// Connections at once, of which streams may have three quarters; 800 when it isn't given, 0 is no limit.
    pub max_connections: Option<u32>,
    /// Names under which the page is asked for: `hosts = ["ralph.example.com"]`.
    pub hosts: Vec<String>,
}

/// `[ceilings]`: what a run may have at most, whoever starts it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CeilingsTable {
    pub iterations: Option<i32>,
    /// Wall time. Hours.
    pub max_time_hours: Option<u32>,
    /// Cost. USD.
    pub max_cost: Option<f64>,
    /// Tokens, in and out.
    pub max_tokens: Option<i64>,
}

impl CeilingsTable {
    /// # Errors
    /// When a bound allows nothing.
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

#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NotifyTable {
    /// Where a run's end and a person's being needed are posted.
    pub url: Option<String>,
    /// Key of the signature, or `file:PATH`; `RALPH_NOTIFY_SECRET` wins.
    pub secret: Option<String>,
    /// What is run with the message on its standard input, split as a shell would.
    pub command: Option<String>,
    /// `run_ended`, `person_needed`, `pool_paused`, `deadline_passed`, `budget_used`, `worker_drained`; all when it isn't given.
    pub events: Vec<String>,
}

impl std::fmt::Debug for NotifyTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NotifyTable")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Models {
    /// Weakest first: `tiers = [{ name = "haiku", names = ["claude-haiku"] }, …]`; one may name its `agent`.
    pub tiers: Vec<Tier>,
}

/// `[limits]`; 0 is no limit.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Iterations of a run.
    pub iterations: Option<i64>,
    /// Wall time of a run: `24h`.
    pub max_time: Option<String>,
    /// Cost of a run. USD.
    pub max_cost: Option<f64>,
    /// Tokens of a run.
    pub max_tokens: Option<i64>,
    /// Wall time of a session: `60m`.
    pub session_time: Option<String>,
    /// Silence of a session: `10m`.
    pub idle_time: Option<String>,
    pub session_output_mb: Option<i64>,
    /// Pause after a task's first failure, doubled by each up to 10 minutes: `10s`.
    pub backoff: Option<String>,
    /// Sessions of a feature that may run at once.
    pub max_parallel: Option<i32>,
}

impl Config {
    /// Reads the file that `RALPH_CONFIG` names, else the nearest one at or above the current folder; without one, the defaults.
    ///
    /// # Errors
    /// When there is a file that can't be read, or one that nobody named and a person never agreed to.
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

    /// The file that `RALPH_CONFIG` names, else the nearest one at or above the current folder.
    ///
    /// # Errors
    /// When there is no current folder, or the file is another user's.
    pub fn locate() -> anyhow::Result<Option<PathBuf>> {
        if let Some(named) = named() {
            return Ok(Some(named));
        }
        let here = std::env::current_dir().context("failed to find the current folder")?;
        Ok(nearest(&here, NAME)?)
    }

    /// Whether the user named the file, which is consent to what it says.
    pub fn is_named() -> bool {
        named().is_some()
    }

    /// A file's text.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn text(path: &Path) -> anyhow::Result<String> {
        Ok(trust::read(path)?)
    }

    /// Reads a file and warns of keys that nobody reads.
    ///
    /// # Errors
    /// When it can't be read, or isn't what it should be.
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

    /// Reads a text, and names the keys that nobody reads.
    ///
    /// # Errors
    /// When it is not what it should be.
    pub fn parse(text: &str) -> anyhow::Result<(Self, Vec<String>)> {
        let table: toml::Table = text.parse()?;
        let unknown = unknown(&table);
        Ok((table.try_into()?, unknown))
    }
}

/// The file that the user names.
fn named() -> Option<PathBuf> {
    let named = std::env::var_os("RALPH_CONFIG").filter(|name| !name.is_empty());
    named.map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_wrong_value_is_an_error_that_names_it() {
        let error = Config::parse("[execution]\nmax_retries = \"many\"").unwrap_err();
        assert!(format!("{error:#}").contains("max_retries"), "{error:#}");
    }
}
