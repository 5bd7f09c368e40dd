//! Unavailable agents, with the reason and the end of the cooldown (SPEC 7.3).

use ralph_domain::scheduling::availability::Unavailability;
use ralph_shared::wire::Unavailable;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;

/// An agent that its worker does not start for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UnavailableAgent {
    /// Name of the agent in the worker's configuration.
    pub agent: String,
    /// The agent's account, if the failure is the account's; then every worker that uses the account waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Kind of failure.
    pub door: Unavailable,
    /// Message of the failure.
    pub reason: String,
    /// Failures in a row.
    pub failures: u32,
    /// Time of the next try.
    #[serde(with = "time::serde::rfc3339")]
    pub until: OffsetDateTime,
    /// Whether one session tries the agent now, while the others wait for the result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tried: bool,
    /// Number of sessions that may use the account at once; 1 until it answers again, then 2, 4 and so on.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub width: u32,
}

fn one() -> u32 {
    1
}

fn is_one(width: &u32) -> bool {
    *width == 1
}

impl UnavailableAgent {
    pub fn new(agent: &str, closed: &Unavailability) -> Self {
        Self {
            agent: agent.to_owned(),
            account: closed.account.clone(),
            door: closed.door,
            reason: closed.reason.clone(),
            failures: closed.failures,
            until: closed.until,
            tried: closed.tried,
            width: closed.width,
        }
    }
}

impl std::fmt::Display for UnavailableAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            agent, door, until, ..
        } = self;
        let words = door.in_words();
        match &self.account {
            Some(account) => write!(f, "account {account} of agent {agent} {words}")?,
            None => write!(f, "agent {agent} {words}")?,
        }
        let times = match self.failures {
            1 => "once".to_owned(),
            n => format!("{n} times in a row"),
        };
        let reason = self.reason.split_whitespace().collect::<Vec<_>>().join(" ");
        let next = match (self.tried, self.width) {
            (true, 1) => "one session tries it now".to_owned(),
            (true, width) => format!("it answers again, and {width} sessions may use it so far"),
            (false, _) => format!("tried again at {}", clock(*until)),
        };
        write!(f, " (failed {times}), {next}: {reason}")
    }
}

fn clock(at: OffsetDateTime) -> String {
    let form = format_description!("[hour]:[minute]:[second]Z");
    at.to_offset(time::UtcOffset::UTC)
        .format(form)
        .unwrap_or_default()
}

/// Tasks that are ready, but that no worker can start now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WaitingView {
    /// Pool of the tasks.
    pub pool: String,
    /// The agent that they need; none if any worker of the pool may take them.
    pub agent: Option<String>,
    /// Number of tasks, counted up to 10,000; up to 1,000 for one feature.
    pub tasks: i64,
    /// Why they wait, and what to do about it.
    pub why: String,
    /// The unavailable agent; none if no worker has the agent that they need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<UnavailableAgent>,
}

impl WaitingView {
    /// Whether both describe the same wait, regardless of the time of the agent's next try.
    pub fn is_like(&self, other: &Self) -> bool {
        let failures = |view: &Self| {
            view.door
                .as_ref()
                .map(|door| (door.failures, door.reason.clone()))
        };
        let same_why = self.door.is_some() || self.why == other.why;
        same_why
            && (&self.pool, &self.agent, self.tasks) == (&other.pool, &other.agent, other.tasks)
            && failures(self) == failures(other)
    }
}

impl std::fmt::Display for WaitingView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tasks = if self.tasks == 1 {
            "task waits"
        } else {
            "tasks wait"
        };
        write!(f, "{} {tasks}: {}", self.tasks, self.why)
    }
}
