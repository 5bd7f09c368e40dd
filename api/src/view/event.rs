//! What happened over all features, in the order of time.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    /// A run began.
    RunBegan,
    /// A run ended; `what` says how.
    RunEnded,
    /// A session ended; `what` says how.
    Attempt,
    /// A task landed on its feature's branch.
    Landed,
    /// A person did something; `what` says what.
    Person,
    /// A part of a limit was used, a deadline passed, an agent or a worker was taken out of work.
    Notice,
}

impl Happened {
    /// The word on screens.
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

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EventView {
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    pub event: Happened,
    /// The feature's name.
    pub feature: Option<String>,
    /// The task's id, and its key and title.
    pub task: Option<String>,
    pub key: Option<String>,
    pub title: Option<String>,
    pub run: Option<String>,
    /// How it ended, or what was done.
    pub what: String,
    /// Why, or who did it.
    pub why: Option<String>,
    /// What a session cost. US dollars.
    pub cost_usd: Option<f64>,
}
