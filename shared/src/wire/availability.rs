//! Failures of agents and accounts. They say nothing about a task, but something about an agent on one
//! worker, or about an account wherever it is used (SPEC 7.3).

use serde::{Deserialize, Serialize};

/// Failures that concern an agent or an account, not a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Unavailable {
    /// The agent's command does not exist or can't be executed.
    NotFound,
    /// It exited before it answered the first request, or refused to start a session.
    ExitsAtOnce,
    /// It requires a login first.
    Authentication,
    /// The provider limits the rate.
    RateLimit,
    /// Its quota or credit is used up, until it is renewed.
    Quota,
    /// The provider is overloaded.
    Overload,
    /// It speaks no protocol version that Ralph speaks.
    Version,
    /// It started, but did not answer the handshake in time.
    Silent,
    /// It ends its turns in order, but always without a word, a tool call or a change.
    Empty,
    /// A failure of a later release.
    #[serde(other)]
    Unknown,
}

/// The scope of such a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concerns {
    /// The agent, on the worker where it failed.
    Agent,
    /// The account at a provider, on every worker that uses it.
    Account,
}

impl Unavailable {
    /// The agent or account that has to wait for a repair.
    pub fn concerns(self) -> Concerns {
        match self {
            Self::RateLimit | Self::Quota | Self::Overload | Self::Empty => Concerns::Account,
            Self::NotFound
            | Self::ExitsAtOnce
            | Self::Authentication
            | Self::Version
            | Self::Silent
            | Self::Unknown => Concerns::Agent,
        }
    }

    /// The description for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::NotFound => "can't be started",
            Self::ExitsAtOnce => "starts no session",
            Self::Authentication => "requires a login",
            Self::RateLimit => "is over its rate",
            Self::Quota => "has used up its quota",
            Self::Overload => "is overloaded",
            Self::Version => "speaks another protocol version",
            Self::Silent => "doesn't answer",
            Self::Empty => "gives empty answers",
            Self::Unknown => "fails before its session",
        }
    }
}

impl std::str::FromStr for Unavailable {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let door = serde_json::from_value(word.into()).ok();
        door.filter(|door: &Self| door.into_str() == word)
            .ok_or_else(|| format!("`{word}` is no kind of failure"))
    }
}

/// An agent that its worker doesn't start for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedAgent {
    /// Its name among the worker's agents.
    pub agent: String,
    /// The kind of failure.
    pub door: Unavailable,
    /// Its message, redacted, at most [`ClosedAgent::REASON_BYTES`].
    pub reason: String,
    /// Failures in a row.
    pub failures: u32,
    /// The remaining time. Milliseconds.
    pub left_ms: u64,
}

impl ClosedAgent {
    /// Longest stored output of a failed agent. Bytes.
    pub const REASON_BYTES: usize = 500;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_match_the_messages() {
        for door in [
            Unavailable::NotFound,
            Unavailable::ExitsAtOnce,
            Unavailable::Authentication,
            Unavailable::RateLimit,
            Unavailable::Quota,
            Unavailable::Overload,
            Unavailable::Version,
            Unavailable::Silent,
            Unavailable::Empty,
            Unavailable::Unknown,
        ] {
            assert_eq!(serde_json::to_value(door).unwrap(), door.into_str());
            assert_eq!(door.into_str().parse(), Ok(door));
        }
        // A word of a later release is read, so that the rest of its message can be read.
        assert_eq!(
            serde_json::from_str::<Unavailable>("\"shy\"").unwrap(),
            Unavailable::Unknown
        );
        assert!("shy".parse::<Unavailable>().is_err());
    }
}
