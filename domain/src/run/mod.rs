//! A run: its limits and choices, and its usage.

pub mod defaults;
pub mod end;

use ralph_shared::agents::prices::usd_text;
use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_shared::wire::{Basis, GateStep, Usage};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::budget::{Pot, Purse, least};
use super::states::RunOutcome;
use crate::routing::strategy::Strategy;
use crate::train::{self, Landing};

/// Limits and choices of a run, as submitted (SPEC 3.4, 7.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// Number of the run's last iteration.
    pub max_iterations: Option<i32>,
    /// Number of its first iteration, from 1; callers that continue a count of their own start later.
    #[serde(default = "one")]
    pub first_iteration: i32,
    pub max_time_ms: Option<i64>,
    pub max_cost_usd: Option<f64>,
    pub max_tokens: Option<i64>,
    pub session_ms: i64,
    pub idle_ms: i64,
    pub output_bytes: i64,
    pub backoff_ms: i64,
    pub model: Option<String>,
    pub model_strategy: Strategy,
    pub agent: Option<String>,
    /// Commands that must succeed on exactly the commit that lands.
    pub gate: Vec<String>,
    /// Settings of the gate's commands, by position. A command without any runs alone, within the worker's
    /// own bound.
    #[serde(default)]
    pub gate_steps: Vec<GateStep>,
    /// Whether the gate may fail on the base commit. Then it is not tried there, and its failure still
    /// prevents landings.
    #[serde(default)]
    pub gate_may_fail: bool,
    /// Patterns of paths. A change of such a path needs a person's approval before it lands.
    #[serde(default)]
    pub protect: Vec<String>,
    /// The way in which passed attempts land.
    #[serde(default)]
    pub landing: Landing,
    /// Maximum number of simultaneous gate checks ahead of their turn.
    #[serde(default = "speculation")]
    pub max_speculation: i32,
    /// Number of retries of a failed gate on the same commit.
    #[serde(default)]
    pub gate_retries: i32,
    /// Whether `max_iterations` grows with the tasks that agents add, since it is a default.
    pub limit_grows: bool,
    /// Whether a task that needs a person waits for one; else it fails for good (SPEC 6.7).
    #[serde(default = "reviewed")]
    pub review: bool,
    /// Whether checkouts start without cached build output.
    #[serde(default)]
    pub cold: bool,
}

fn one() -> i32 {
    1
}

/// Default wall time of a session (SPEC 3.4).
pub const SESSION_MS: i64 = 60 * 60 * 1_000;
/// Default limit of an agent's silence.
pub const IDLE_MS: i64 = 10 * 60 * 1_000;
/// Default limit of a session's output.
pub const OUTPUT_BYTES: i64 = 50 * 1024 * 1024;
/// Default pause after a failure.
pub const BACKOFF_MS: i64 = 10 * 1_000;
/// Default number of iterations per task (SPEC 3.4).
pub const ITERATIONS_A_TASK: usize = 5;
/// Default number of a feature's simultaneous sessions.
pub const DEFAULT_MAX_PARALLEL: i32 = 4;

impl Default for RunSettings {
    /// A run without limits of its own, with the default limits of sessions.
    fn default() -> Self {
        Self {
            max_iterations: None,
            first_iteration: 1,
            max_time_ms: None,
            max_cost_usd: None,
            max_tokens: None,
            session_ms: SESSION_MS,
            idle_ms: IDLE_MS,
            output_bytes: OUTPUT_BYTES,
            backoff_ms: BACKOFF_MS,
            model: None,
            model_strategy: Strategy::CostOptimized,
            agent: None,
            gate: Vec::new(),
            gate_steps: Vec::new(),
            gate_may_fail: false,
            protect: Vec::new(),
            landing: Landing::default(),
            max_speculation: train::DEFAULT_SPECULATION,
            gate_retries: 0,
            limit_grows: false,
            review: true,
            cold: false,
        }
    }
}

/// The value for rows from before the setting existed.
fn speculation() -> i32 {
    train::DEFAULT_SPECULATION
}

/// The value for rows from before the setting existed.
fn reviewed() -> bool {
    true
}

/// The coordinator's bounds of every run; `None` is no bound (SPEC 8).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ceilings {
    pub iterations: Option<i32>,
    pub time_ms: Option<i64>,
    pub cost_usd: Option<f64>,
    pub tokens: Option<i64>,
}

impl RunSettings {
    /// Iterations, milliseconds, US dollars and tokens of the run.
    pub fn limits(&self) -> (Option<i32>, Option<i64>, Option<f64>, Option<i64>) {
        (
            self.max_iterations,
            self.max_time_ms,
            self.max_cost_usd,
            self.max_tokens,
        )
    }

    /// The settings within these bounds. A bound replaces a default limit of iterations, which then does not
    /// grow with agents' tasks.
    #[must_use]
    pub fn within(mut self, ceilings: &Ceilings) -> Self {
        if self.limit_grows && ceilings.iterations.is_some() {
            self.limit_grows = false;
            self.max_iterations = None;
        }
        self.max_iterations = least(self.max_iterations, ceilings.iterations);
        self.max_time_ms = least(self.max_time_ms, ceilings.time_ms);
        self.max_cost_usd = least(self.max_cost_usd, ceilings.cost_usd);
        self.max_tokens = least(self.max_tokens, ceilings.tokens);
        self
    }
}

/// A run with its usage.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: RunId,
    pub feature: FeatureId,
    /// The only task of the run, with its parts; `None` stands for the whole feature.
    pub only_task: Option<TaskId>,
    pub settings: RunSettings,
    pub iterations: i32,
    pub succeeded: i32,
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// Cost of ended sessions. US dollars.
    pub cost_usd: f64,
    /// Estimated part of the cost, including live sessions. US dollars.
    pub estimated_usd: f64,
    /// Number of sessions under a subscription, including live ones.
    pub subscribed: i32,
    pub in_flight: InFlight,
    pub started_at: OffsetDateTime,
    /// Total pauses of its feature, including the present one. Milliseconds.
    pub paused_ms: i64,
    pub ended_at: Option<OffsetDateTime>,
    /// No session of its feature starts before this time.
    pub not_before: Option<OffsetDateTime>,
    /// When its feature should be finished.
    pub deadline: Option<OffsetDateTime>,
    pub stop_at_deadline: bool,
    pub outcome: Option<RunOutcome>,
    pub reason: Option<String>,
    /// The database's time when the row was read.
    pub now: OffsetDateTime,
}

/// Usage of live sessions so far, as reported by their workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InFlight {
    /// US dollars.
    pub cost_usd: f64,
    /// Tokens read and written.
    pub tokens: i64,
}

/// US dollars in millionths, as shares are counted.
pub fn microusd(usd: f64) -> i64 {
    (usd * 1e6).round() as i64
}

impl Run {
    /// Whether it ended after its feature's deadline, or is still running then.
    pub fn is_late(&self) -> bool {
        let at = self.ended_at.unwrap_or(self.now);
        self.deadline.is_some_and(|deadline| deadline < at)
    }

    /// Total cost, with live sessions. US dollars.
    pub fn used_usd(&self) -> f64 {
        self.cost_usd + self.in_flight.cost_usd
    }

    /// Total tokens, with live sessions.
    pub fn used_tokens(&self) -> i64 {
        self.input_tokens + self.output_tokens + self.in_flight.tokens
    }

    /// Whether its agents report a cost; true before the first session.
    pub fn reports_cost(&self) -> bool {
        self.used_usd() > 0.0 || self.iterations == 0 && self.used_tokens() == 0
    }

    /// Whether none of its usage is paid.
    pub fn is_subscription(&self) -> bool {
        self.subscribed > 0 && self.used_usd() <= 0.0
    }

    /// Total cost in words, without the unit.
    pub fn used_words(&self) -> String {
        usd_text(self.used_usd(), self.estimated_usd > 0.0)
    }

    /// The rest of its limits without live sessions.
    pub fn purse(&self) -> Purse {
        let pot = |max: i64, used: i64| Pot {
            max,
            left: max.saturating_sub(used),
        };
        Purse {
            microusd: self
                .settings
                .max_cost_usd
                .map(|max| pot(microusd(max), microusd(self.used_usd()))),
            tokens: self.settings.max_tokens.map(|max| pot(max, self.used_tokens())),
        }
    }

    /// Its duration so far, without pauses. Milliseconds.
    pub fn took_ms(&self, now: OffsetDateTime) -> i64 {
        let began = self
            .not_before
            .map_or(self.started_at, |at| at.max(self.started_at));
        let elapsed = self.ended_at.unwrap_or(now).max(began) - began;
        let elapsed_ms = i64::try_from(elapsed.whole_milliseconds()).unwrap_or(i64::MAX);
        elapsed_ms.saturating_sub(self.paused_ms)
    }

    /// The run with this usage added.
    #[must_use]
    pub fn after(&self, spent: Spent) -> Self {
        Self {
            iterations: self.iterations + spent.iterations,
            succeeded: (self.succeeded + spent.succeeded).max(0),
            input_tokens: self.input_tokens + spent.input_tokens,
            output_tokens: self.output_tokens + spent.output_tokens,
            cost_usd: self.cost_usd + spent.cost_usd,
            estimated_usd: self.estimated_usd + spent.estimated_usd,
            ..self.clone()
        }
    }
}

/// Usage that a batch of reports adds to a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    pub iterations: i32,
    pub succeeded: i32,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_usd: f64,
    pub estimated_usd: f64,
    pub subscribed: i32,
}

impl Spent {
    /// Adds a session's usage beyond the part that was counted before.
    pub fn more(&mut self, before: &Usage, used: &Usage) {
        let tokens = |before: Option<u64>, used: Option<u64>| {
            let more = used.unwrap_or(0).saturating_sub(before.unwrap_or(0));
            i64::try_from(more).unwrap_or(i64::MAX)
        };
        self.input_tokens += tokens(before.input_tokens, used.input_tokens);
        self.output_tokens += tokens(before.output_tokens, used.output_tokens);
        let cost = |of: &Usage| of.cost_usd.unwrap_or(0.0);
        let estimated = |of: &Usage| if of.is_estimated() { cost(of) } else { 0.0 };
        let count = |of: &Usage, basis| i32::from(of.basis == Some(basis));
        // An earlier estimate may have been too high.
        self.cost_usd += cost(used) - cost(before);
        self.estimated_usd += estimated(used) - estimated(before);
        self.subscribed += count(used, Basis::Subscription) - count(before, Basis::Subscription);
    }
}
