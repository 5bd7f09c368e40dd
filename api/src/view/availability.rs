//! Which agents are unavailable, why, and until when (SPEC 7.3).

use ralph_domain::scheduling::availability::Unavailability;
use ralph_shared::wire::Unavailable;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;

/// An agent that its worker doesn't start for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UnavailableAgent {
    /// The agent, by its name among the worker's.
    pub agent: String,
    /// The account that it uses, where it is that which fails: then every worker waits that uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// What failed.
    pub door: Unavailable,
    /// What it said.
    pub reason: String,
    /// Failures in a row.
    pub failures: u32,
    /// When it is tried again.
    #[serde(with = "time::serde::rfc3339")]
    pub until: OffsetDateTime,
    /// Whether one session tries it now, and the others wait for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tried: bool,
    /// How many sessions may use the account at a time; 1 until it answers again, then 2, 4 and so on.
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
        let times = if self.failures == 1 { "once" } else { "in a row" };
        let n = if self.failures == 1 {
            String::new()
        } else {
            format!("{} times ", self.failures)
        };
        let next = match (self.tried, self.width) {
            (true, 1) => "one session tries it now".to_owned(),
            (true, width) => format!("it answers again, and {width} sessions may use it so far"),
            (false, _) => format!("tried again at {}", clock(*until)),
        };
        write!(f, " (failed {n}{times}), {next}: {}", on_one_line(&self.reason))
    }
}

/// On one line.
fn on_one_line(reason: &str) -> String {
    reason.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn clock(at: OffsetDateTime) -> String {
    let form = format_description!("[hour]:[minute]:[second]Z");
    at.to_offset(time::UtcOffset::UTC)
        .format(form)
        .unwrap_or_default()
}

/// Tasks that could start, but that no worker can start now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WaitingView {
    /// Their pool.
    pub pool: String,
    /// The agent that they need; none, if any worker of the pool would do.
    pub agent: Option<String>,
    /// How many, counted up to 10,000; of one feature up to 1,000.
    pub tasks: i64,
    /// What they wait for, and what to do about it.
    pub why: String,
    /// The agent that isn't started now; none, where no worker has what they need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<UnavailableAgent>,
}

impl WaitingView {
    /// Whether this is the same wait as another one, whenever the agent is tried again.
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
