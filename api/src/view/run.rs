//! Runs.

use ralph_domain::run::{InFlight, Run};
use ralph_domain::states::RunOutcome;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A run: its limits, its usage, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunView {
    pub id: String,
    pub feature: String,
    /// Name of its feature, if known.
    #[serde(default)]
    pub feature_name: String,
    /// The one task that it runs, with its subtasks; the whole feature when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_task: Option<String>,
    /// `None` while the run continues.
    pub outcome: Option<RunOutcome>,
    /// Why the run ended.
    pub reason: Option<String>,
    pub model: Option<String>,
    pub model_strategy: String,
    pub agent: Option<String>,
    /// Whether a task that needs a person waits for one; otherwise it fails for good.
    pub review: bool,
    pub limits: RunLimits,
    pub iterations: i32,
    /// Successful iterations.
    pub succeeded: i32,
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// Cost of its ended sessions. US dollars.
    pub cost_usd: f64,
    /// Whether any cost is known or estimated; `false` until a session reported or wrote something.
    #[serde(default = "yes")]
    pub cost_known: bool,
    /// Whether some of its cost is estimated.
    #[serde(default)]
    pub estimated: bool,
    /// Whether a subscription pays for it, so that its use costs nothing extra.
    #[serde(default)]
    pub subscription: bool,
    /// Additional usage of its live sessions so far.
    #[serde(default)]
    pub in_flight: InFlight,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub ended_at: Option<OffsetDateTime>,
    /// Duration, or time so far, without pauses.
    pub elapsed_ms: i64,
    /// Whether its feature's deadline passed before it ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// The value for answers of earlier releases, which omit it.
fn yes() -> bool {
    true
}

/// Limits of a run; `None` means no limit (SPEC 3.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunLimits {
    pub iterations: Option<i32>,
    pub time_ms: Option<i64>,
    pub cost_usd: Option<f64>,
    pub tokens: Option<i64>,
    pub session_ms: i64,
    pub idle_ms: i64,
    pub output_bytes: i64,
    pub backoff_ms: i64,
}

impl From<Run> for RunView {
    fn from(run: Run) -> Self {
        let elapsed_ms = run.took_ms(run.now);
        let cost_known = run.reports_cost();
        let late = run.is_late();
        let subscription = run.is_subscription();
        let settings = run.settings;
        Self {
            id: run.id.short(),
            feature: run.feature.short(),
            feature_name: String::new(),
            only_task: run.only_task.map(|task| task.short()),
            outcome: run.outcome,
            reason: run.reason,
            model: settings.model,
            model_strategy: settings.model_strategy.into_str().to_owned(),
            agent: settings.agent,
            review: settings.review,
            limits: RunLimits {
                iterations: settings.max_iterations,
                time_ms: settings.max_time_ms,
                cost_usd: settings.max_cost_usd,
                tokens: settings.max_tokens,
                session_ms: settings.session_ms,
                idle_ms: settings.idle_ms,
                output_bytes: settings.output_bytes,
                backoff_ms: settings.backoff_ms,
            },
            iterations: run.iterations,
            succeeded: run.succeeded,
            input_tokens: run.input_tokens,
            output_tokens: run.output_tokens,
            cost_usd: run.cost_usd,
            cost_known,
            estimated: run.estimated_usd > 0.0,
            subscription,
            in_flight: run.in_flight,
            started_at: run.started_at,
            ended_at: run.ended_at,
            elapsed_ms,
            late,
        }
    }
}
