//! Reasons of failed sessions, verifications and landings, and their consequences: one table, from which
//! `docs/failures.md` is made (SPEC 3.3, 6.7, 7.3).
//!
//! A judgement names the reason, and its dispatch stores it. Every rule that asks "does that count", "again,
//! and when" or "who is told" asks the reason's [`Policy`].

pub mod page;
pub mod retry;
pub mod signature;
pub mod silence;
pub mod worker_health;

use std::time::Duration;

use ralph_shared::wire::{SessionLimit, Unavailable};
use serde::{Deserialize, Serialize};

use super::states::Outcome;

/// How a failure counts against its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    Nothing,
    /// A failure: the task may have as many as its retries.
    Failure,
    /// A failure when nothing changed, or at the last of [`crate::failure::retry::MAX_NO_SIGILS`] in a row.
    Unfinished,
    /// One of at most [`crate::failure::retry::MAX_CONFLICTS`] conflicts.
    Conflict,
    /// One of [`crate::failure::retry::MAX_AWAY`] tries in a row.
    Away,
    /// One of [`crate::failure::retry::MAX_LACKS`] tries in a row.
    Lack,
    /// One of [`crate::failure::retry::MAX_VERIFY_TRIES`] tries to verify.
    Verification,
    /// A death of [`crate::failure::retry::MAX_LOST_ALONE`].
    DeathAlone,
    /// A death of [`crate::failure::retry::MAX_LOST_WITH_OTHERS`].
    DeathWithOthers,
}

/// When its task is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// Only when a person says so.
    Never,
    /// At once.
    None,
    /// After the run's back-off, doubled with each failure in a row.
    Growing,
    /// After the run's back-off, so that others go first.
    Pause,
    /// After a fraction of a second, later up to a minute.
    Elsewhere,
}

/// Who is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Nobody but who looks.
    Nobody,
    /// A person, when no try is left.
    AtTheEnd,
    /// A person, at once.
    AtOnce,
    /// The operators of the pool, after several failed sessions of the agent in a row.
    Pool,
}

/// Pauses of an account whose provider names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// After the first failure, doubled with each further one.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
}

const fn pauses(first: u64, longest: u64) -> Option<Pauses> {
    Some(Pauses {
        first: Duration::from_secs(first),
        longest: Duration::from_secs(longest),
    })
}

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The dispatch's outcome, unless its step names another.
    pub outcome: Outcome,
    pub counts: Counts,
    /// When the task is tried again.
    pub delay: Delay,
    /// Whether a stronger model may mend it.
    pub raises_model: bool,
    /// Who is notified.
    pub audience: Audience,
    /// The pauses of the account, when the account fails.
    pub account: Option<Pauses>,
    /// Whether it says something about the worker.
    pub of_worker: bool,
    /// What happened, for people.
    pub means: &'static str,
}

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident = $word:literal),* $(,)?) => {
        /// Why something came to nothing.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
        #[cfg_attr(feature = "postgres", derive(sqlx::Type), sqlx(type_name = "failure", rename_all = "snake_case"))]
        #[serde(rename_all = "snake_case")]
        pub enum Failure { $($(#[$doc])* $name),* }

        impl Failure {
            /// All of them, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word in the database, on screens and in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }
        }
    };
}

failures! {
    Reported = "reported",
    Refused = "refused",
    Blocked = "blocked",
    Unconcluded = "unconcluded",
    Graph = "graph",
    Bulk = "bulk",
    TurnLimit = "turn_limit",
    EmptyTurn = "empty_turn",
    FirstEmptyTurn = "first_empty_turn",
    TimeLimit = "time_limit",
    IdleLimit = "idle_limit",
    OutputLimit = "output_limit",
    ToolLimit = "tool_limit",
    Stalled = "stalled",
    DiskLimit = "disk_limit",
    Budget = "budget",
    AgentCrash = "agent_crash",
    Protocol = "protocol",
    Workspace = "workspace",
    NotPushed = "not_pushed",
    Away = "away",
    Lack = "lack",
    AgentMissing = "agent_missing",
    AgentExits = "agent_exits",
    AgentLogin = "agent_login",
    AgentVersion = "agent_version",
    AgentSilent = "agent_silent",
    AgentUnknown = "agent_unknown",
    RateLimit = "rate_limit",
    Quota = "quota",
    Overload = "overload",
    Outage = "outage",
    Verification = "verification",
    NoVerdict = "no_verdict",
    NotVerified = "not_verified",
    Gate = "gate",
    GateUnsure = "gate_unsure",
    GateOnBase = "gate_on_base",
    Conflict = "conflict",
    ConflictMarkers = "conflict_markers",
    Landing = "landing",
    Unanswered = "unanswered",
    Interrupted = "interrupted",
    Drained = "drained",
    RunLimit = "run_limit",
    TakenAway = "taken_away",
    OutOfContact = "out_of_contact",
    WorkerDied = "worker_died",
    WorkersDied = "workers_died",
}

impl Failure {
    /// What follows: the table.
    pub fn policy(self) -> Policy {
        // A failure that counts, with retries after growing pauses.
        let counts = Policy {
            outcome: Outcome::Error,
            counts: Counts::Failure,
            delay: Delay::Growing,
            raises_model: false,
            audience: Audience::AtTheEnd,
            account: None,
            of_worker: false,
            means: "",
        };
        let of_work = Policy {
            outcome: Outcome::Failed,
            raises_model: true,
            ..counts
        };
        let unfinished = Policy {
            outcome: Outcome::NoSigil,
            counts: Counts::Unfinished,
            ..of_work
        };
        let limit = Policy {
            outcome: Outcome::Error,
            ..of_work
        };
        // A failure of the agent on this worker, not of the task.
        let door = Policy {
            outcome: Outcome::Unavailable,
            counts: Counts::Nothing,
            delay: Delay::Pause,
            audience: Audience::Pool,
            ..counts
        };
        // A failure of the account everywhere; the task waits as long.
        let account = |pauses| Policy {
            delay: Delay::None,
            account: pauses,
            ..door
        };
        let ended = Policy {
            outcome: Outcome::Interrupted,
            counts: Counts::Nothing,
            delay: Delay::None,
            audience: Audience::Nobody,
            ..counts
        };
        let lost = Policy {
            outcome: Outcome::Lost,
            ..ended
        };
        let asks = Policy {
            counts: Counts::Nothing,
            delay: Delay::Never,
            audience: Audience::AtOnce,
            ..counts
        };
        let is = |policy: Policy, means| Policy { means, ..policy };
        let place = |policy: Policy| Policy {
            of_worker: true,
            ..policy
        };
        match self {
            Self::Reported => is(of_work, "The agent reports that it failed."),
            Self::Refused => is(of_work, "The agent refuses the task."),
            Self::Blocked => Policy {
                outcome: Outcome::Failed,
                ..is(asks, "The agent says that it is blocked.")
            },
            Self::Unconcluded => is(unfinished, "The agent ended its turn without saying how it went."),
            Self::Graph => is(of_work, "The graph that the agent sent can't be used."),
            Self::Bulk => Policy {
                raises_model: false,
                delay: Delay::None,
                ..is(
                    unfinished,
                    "The work adds large files, very many, or those of a build.",
                )
            },
            Self::TurnLimit => is(
                unfinished,
                "The agent ran into a limit of its turn: tokens or requests.",
            ),
            Self::EmptyTurn => is(unfinished, "The agent answered the same task with nothing again."),
            Self::FirstEmptyTurn => Policy {
                outcome: Outcome::NoSigil,
                audience: Audience::Nobody,
                ..is(door, "The agent answered with nothing, for the first time.")
            },
            Self::TimeLimit => is(limit, "The session took longer than its limit."),
            Self::IdleLimit => is(counts, "The agent was silent for longer than the limit."),
            Self::OutputLimit => is(limit, "The agent sent more than the limit."),
            Self::ToolLimit => is(limit, "The agent called more tools than the limit."),
            Self::Stalled => is(limit, "The agent sent updates but made no progress."),
            Self::DiskLimit => is(place(counts), "The session filled the worker's disk."),
            Self::Budget => is(
                ended,
                "The session's share of the run's cost or tokens is used up.",
            ),
            Self::AgentCrash => is(place(counts), "The agent's process ended before its turn did."),
            Self::Protocol => is(
                place(counts),
                "The agent answered with an error, or with what is no protocol.",
            ),
            Self::Workspace => is(place(counts), "The workspace could not be made."),
            Self::NotPushed => is(place(counts), "The work could not be pushed."),
            Self::Away => Policy {
                outcome: Outcome::Unavailable,
                counts: Counts::Away,
                ..is(counts, "A server that the session needs could not be reached.")
            },
            Self::Lack => Policy {
                counts: Counts::Lack,
                delay: Delay::Elsewhere,
                ..is(counts, "The worker lacks a command that another worker may have.")
            },
            Self::AgentMissing => is(door, "The agent's command does not exist or can't be executed."),
            Self::AgentExits => is(door, "The agent begins no session."),
            Self::AgentLogin => is(door, "The agent wants a login."),
            Self::AgentVersion => is(door, "The agent speaks another protocol version."),
            Self::AgentSilent => is(door, "The agent doesn't answer."),
            Self::AgentUnknown => is(door, "The agent fails before its session in another way."),
            Self::RateLimit => is(
                account(pauses(1, 5 * 60)),
                "The provider limits the account's rate (429).",
            ),
            Self::Quota => is(
                account(pauses(60, 60 * 60)),
                "The account's quota or credit is used up.",
            ),
            Self::Overload => is(account(pauses(1, 60)), "The provider is overloaded (503, 529)."),
            // A task with an empty answer waits longer, so that another one tries the account.
            Self::Outage => Policy {
                delay: Delay::Pause,
                ..is(
                    account(pauses(1, 5 * 60)),
                    "The agent answers several tasks in a row with nothing.",
                )
            },
            Self::Verification => is(of_work, "The verifier refused the work."),
            Self::NoVerdict => Policy {
                counts: Counts::Verification,
                delay: Delay::None,
                raises_model: false,
                audience: Audience::Nobody,
                ..is(unfinished, "The verifier gave no verdict.")
            },
            Self::NotVerified => is(of_work, "The verifier gave no verdict at its last try."),
            Self::Gate => is(of_work, "A command of the gate failed on the work."),
            Self::GateUnsure => Policy {
                outcome: Outcome::Void,
                ..is(
                    ended,
                    "The gate failed, but is not known to pass on the base commit.",
                )
            },
            Self::GateOnBase => Policy {
                outcome: Outcome::Failed,
                ..is(asks, "The gate fails on the base commit.")
            },
            Self::Conflict => Policy {
                outcome: Outcome::Conflict,
                counts: Counts::Conflict,
                delay: Delay::None,
                ..is(counts, "The work conflicts with what landed before.")
            },
            Self::ConflictMarkers => is(of_work, "Conflict markers are left in the work."),
            Self::Landing => is(asks, "The work is pushed, but can't be brought onto the branch."),
            Self::Unanswered => Policy {
                outcome: Outcome::Interrupted,
                ..is(asks, "The agent asked a person, and nobody answered in time.")
            },
            Self::Interrupted => is(ended, "A person ended the session."),
            Self::Drained => is(ended, "The worker was drained."),
            Self::RunLimit => is(ended, "The run reached a limit."),
            Self::TakenAway => is(lost, "The task was taken from the worker."),
            Self::OutOfContact => is(lost, "The worker was out of contact for too long."),
            Self::WorkerDied => Policy {
                counts: Counts::DeathAlone,
                audience: Audience::AtTheEnd,
                ..is(lost, "The worker died while it ran this task alone.")
            },
            Self::WorkersDied => Policy {
                counts: Counts::DeathWithOthers,
                audience: Audience::AtTheEnd,
                ..is(lost, "The worker died while it ran this task and others.")
            },
        }
    }

    /// The reason of an agent that did not start.
    pub fn of_unavailable(door: Unavailable) -> Self {
        match door {
            Unavailable::NotFound => Self::AgentMissing,
            Unavailable::ExitsAtOnce => Self::AgentExits,
            Unavailable::Authentication => Self::AgentLogin,
            Unavailable::RateLimit => Self::RateLimit,
            Unavailable::Quota => Self::Quota,
            Unavailable::Overload => Self::Overload,
            Unavailable::Version => Self::AgentVersion,
            Unavailable::Silent => Self::AgentSilent,
            Unavailable::Empty => Self::Outage,
            Unavailable::Unknown => Self::AgentUnknown,
        }
    }

    /// The reason of a session limit.
    pub fn of_limit(limit: SessionLimit) -> Self {
        match limit {
            SessionLimit::Session => Self::TimeLimit,
            SessionLimit::Idle => Self::IdleLimit,
            SessionLimit::Output => Self::OutputLimit,
            SessionLimit::ToolCalls => Self::ToolLimit,
            SessionLimit::Stall => Self::Stalled,
            SessionLimit::Disk => Self::DiskLimit,
            // The run's limit, not the task's fault: the work is kept, and the next session continues it.
            SessionLimit::Cost | SessionLimit::Tokens => Self::Budget,
        }
    }

    /// Whether it says nothing about the task: it is no iteration, and leaves no failure report.
    pub fn is_nobodys(self) -> bool {
        matches!(self.policy().outcome, Outcome::Unavailable | Outcome::Lost) || self == Self::FirstEmptyTurn
    }

    /// Whether another dispatch may succeed, since only the place failed, not the work.
    pub fn is_away(self) -> bool {
        matches!(self.policy().counts, Counts::Away | Counts::Lack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_json_and_the_database() {
        for failure in Failure::ALL {
            assert_eq!(serde_json::to_value(failure).unwrap(), failure.as_str());
        }
    }

    #[test]
    fn whatever_is_waited_for_counts_for_nothing() {
        for failure in Failure::ALL {
            let policy = failure.policy();
            assert!(
                !policy.means.is_empty() && policy.means.ends_with('.'),
                "{failure:?}"
            );
            if policy.audience == Audience::Pool || policy.account.is_some() {
                assert_eq!(
                    (policy.counts, policy.outcome),
                    (Counts::Nothing, Outcome::Unavailable),
                    "{failure:?}"
                );
            }
            if policy.raises_model {
                assert!(
                    matches!(policy.counts, Counts::Failure | Counts::Unfinished),
                    "{failure:?}"
                );
            }
        }
    }
}
