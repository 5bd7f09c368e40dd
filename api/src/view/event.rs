//! Events of all features in chronological order.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    /// A run started.
    RunBegan,
    /// A run ended; `what` says how.
    RunEnded,
    /// A session ended; `what` says how.
    Attempt,
    /// A task landed on its feature's branch.
    Landed,
    /// A person did something; `what` says what.
    Person,
    /// A part of a limit was used, a deadline passed, or an agent or a worker became unavailable.
    Notice,
}

impl Happened {
    /// Word for screens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunBegan => "run",
            Self::RunEnded => "end",
            Self::Attempt => "attempt",
            Self::Landed => "landed",
            Self::Person => "person",
            Self::Notice => "notice",
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EventView {
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    pub event: Happened,
    /// Name of the feature.
    pub feature: Option<String>,
    /// Id of the task.
    pub task: Option<String>,
    pub key: Option<String>,
    pub title: Option<String>,
    pub run: Option<String>,
    /// How it ended, or what was done.
    pub what: String,
    /// The reason, or the actor.
    pub why: Option<String>,
    /// Cost of the session. US dollars.
    pub cost_usd: Option<f64>,
}
