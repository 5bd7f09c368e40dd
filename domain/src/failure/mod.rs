//! Reasons of failed sessions, verifications and landings, and their consequences (SPEC 3.3, 6.7, 7.3).
//! `docs/failures.md` is generated from this table.
//!
//! A judgement names the reason, and its dispatch stores it. Every rule about counting, retries or
//! notifications asks the reason's [`Policy`].

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
    /// A failure; the task's retries limit their number.
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

/// Delay before the task is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// Only when a person decides so.
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

/// The people to notify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
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
    pub longest: Duration,
}

/// The consequences of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The dispatch's outcome, unless its step names another.
    pub outcome: Outcome,
    pub counts: Counts,
    pub delay: Delay,
    /// Whether a stronger model may succeed.
    pub raises_model: bool,
    pub audience: Audience,
    /// The pauses of the account, when the account fails.
    pub account: Option<Pauses>,
    /// Whether the worker may be at fault.
    pub of_worker: bool,
}

impl Policy {
    /// A failure that counts, with retries after growing pauses.
    const COUNTS: Self = Self {
        outcome: Outcome::Error,
        counts: Counts::Failure,
        delay: Delay::Growing,
        raises_model: false,
        audience: Audience::AtTheEnd,
        account: None,
        of_worker: false,
    };
    const OF_WORK: Self = Self {
        outcome: Outcome::Failed,
        raises_model: true,
        ..Self::COUNTS
    };
    const UNFINISHED: Self = Self {
        outcome: Outcome::NoSigil,
        counts: Counts::Unfinished,
        ..Self::OF_WORK
    };
    const LIMIT: Self = Self::OF_WORK.with_outcome(Outcome::Error);
    const OF_WORKER: Self = Self {
        of_worker: true,
        ..Self::COUNTS
    };
    /// A failure of the agent on this worker, not of the task.
    const UNAVAILABLE: Self = Self {
        outcome: Outcome::Unavailable,
        counts: Counts::Nothing,
        delay: Delay::Pause,
        audience: Audience::Pool,
        ..Self::COUNTS
    };
    const ENDED: Self = Self {
        outcome: Outcome::Interrupted,
        counts: Counts::Nothing,
        delay: Delay::None,
        audience: Audience::Nobody,
        ..Self::COUNTS
    };
    const LOST: Self = Self::ENDED.with_outcome(Outcome::Lost);
    const ASKS: Self = Self {
        counts: Counts::Nothing,
        delay: Delay::Never,
        audience: Audience::AtOnce,
        ..Self::COUNTS
    };

    const fn with_outcome(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }

    const fn with_delay(self, delay: Delay) -> Self {
        Self { delay, ..self }
    }

    /// A failure of the account everywhere; the task waits for the account's pause. Seconds.
    const fn of_account(first: u64, longest: u64) -> Self {
        Self {
            account: Some(Pauses {
                first: Duration::from_secs(first),
                longest: Duration::from_secs(longest),
            }),
            ..Self::UNAVAILABLE.with_delay(Delay::None)
        }
    }

    const fn death(counts: Counts) -> Self {
        Self {
            counts,
            audience: Audience::AtTheEnd,
            ..Self::LOST
        }
    }
}

macro_rules! failures {
    ($($name:ident = $word:literal: $means:literal),* $(,)?) => {
        /// Why a session, a verification or a landing failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
        #[cfg_attr(feature = "postgres", derive(sqlx::Type), sqlx(type_name = "failure", rename_all = "snake_case"))]
        #[serde(rename_all = "snake_case")]
        pub enum Failure { $($name),* }

        impl Failure {
            /// All of them, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word in the database, on screens and in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// A description for people.
            pub fn means(self) -> &'static str {
                match self { $(Self::$name => $means),* }
            }
        }
    };
}

failures! {
    Reported = "reported": "The agent reports that it failed.",
    Refused = "refused": "The agent refuses the task.",
    Blocked = "blocked": "The agent says that it is blocked.",
    Unconcluded = "unconcluded": "The agent ended its turn without reporting a result.",
    Graph = "graph": "The graph that the agent sent can't be used.",
    Bulk = "bulk": "The work adds large files, very many files, or build output.",
    TurnLimit = "turn_limit": "The agent reached a limit of its turn: tokens or requests.",
    EmptyTurn = "empty_turn": "The agent gave an empty answer to the same task again.",
    FirstEmptyTurn = "first_empty_turn": "The agent gave an empty answer for the first time.",
    TimeLimit = "time_limit": "The session took longer than its limit.",
    IdleLimit = "idle_limit": "The agent was silent for longer than the limit.",
    OutputLimit = "output_limit": "The agent sent more than the limit.",
    ToolLimit = "tool_limit": "The agent called more tools than the limit.",
    Stalled = "stalled": "The agent sent updates but made no progress.",
    DiskLimit = "disk_limit": "The session filled the worker's disk.",
    Budget = "budget": "The session's share of the run's cost or tokens is used up.",
    AgentCrash = "agent_crash": "The agent's process ended before its turn did.",
    Protocol = "protocol": "The agent answered with an error, or broke the protocol.",
    Workspace = "workspace": "The workspace could not be made.",
    NotPushed = "not_pushed": "The work could not be pushed.",
    Away = "away": "A server that the session needs could not be reached.",
    Lack = "lack": "The worker lacks a command that another worker may have.",
    AgentMissing = "agent_missing": "The agent's command does not exist or can't be executed.",
    AgentExits = "agent_exits": "The agent does not start a session.",
    AgentLogin = "agent_login": "The agent requires a login.",
    AgentVersion = "agent_version": "The agent speaks another protocol version.",
    AgentSilent = "agent_silent": "The agent doesn't answer.",
    AgentUnknown = "agent_unknown": "The agent failed before its session for another reason.",
    RateLimit = "rate_limit": "The provider limits the account's rate (429).",
    Quota = "quota": "The account's quota or credit is used up.",
    Overload = "overload": "The provider is overloaded (503, 529).",
    Outage = "outage": "The agent gave empty answers to several tasks in a row.",
    Verification = "verification": "The verifier refused the work.",
    NoVerdict = "no_verdict": "The verifier gave no verdict.",
    NotVerified = "not_verified": "The verifier gave no verdict at its last try.",
    Gate = "gate": "A command of the gate failed on the work.",
    GateUnsure = "gate_unsure": "The gate failed, but is not known to pass on the base commit.",
    GateOnBase = "gate_on_base": "The gate fails on the base commit.",
    Conflict = "conflict": "The work conflicts with what landed before.",
    ConflictMarkers = "conflict_markers": "Conflict markers are left in the work.",
    Landing = "landing": "The work is pushed, but cannot land on the branch.",
    Unanswered = "unanswered": "The agent asked a person, and nobody answered in time.",
    Interrupted = "interrupted": "A person ended the session.",
    Drained = "drained": "The worker was drained.",
    RunLimit = "run_limit": "The run reached a limit.",
    TakenAway = "taken_away": "The task was taken from the worker.",
    OutOfContact = "out_of_contact": "The worker was out of contact for too long.",
    WorkerDied = "worker_died": "The worker died while it ran this task alone.",
    WorkersDied = "workers_died": "The worker died while it ran this task and others.",
}

impl Failure {
    /// The consequences of this failure.
    pub fn policy(self) -> Policy {
        match self {
            Self::Reported | Self::Refused | Self::Graph | Self::ConflictMarkers => Policy::OF_WORK,
            Self::Verification | Self::NotVerified | Self::Gate => Policy::OF_WORK,
            Self::Unconcluded | Self::TurnLimit | Self::EmptyTurn => Policy::UNFINISHED,
            Self::Bulk => Policy {
                raises_model: false,
                ..Policy::UNFINISHED.with_delay(Delay::None)
            },
            Self::NoVerdict => Policy {
                counts: Counts::Verification,
                delay: Delay::None,
                raises_model: false,
                audience: Audience::Nobody,
                ..Policy::UNFINISHED
            },
            Self::TimeLimit | Self::OutputLimit | Self::ToolLimit | Self::Stalled => Policy::LIMIT,
            Self::IdleLimit => Policy::COUNTS,
            Self::DiskLimit | Self::AgentCrash | Self::Protocol => Policy::OF_WORKER,
            Self::Workspace | Self::NotPushed => Policy::OF_WORKER,
            Self::Away => Policy {
                outcome: Outcome::Unavailable,
                counts: Counts::Away,
                ..Policy::COUNTS
            },
            Self::Lack => Policy {
                counts: Counts::Lack,
                delay: Delay::Elsewhere,
                ..Policy::COUNTS
            },
            Self::Conflict => Policy {
                outcome: Outcome::Conflict,
                counts: Counts::Conflict,
                delay: Delay::None,
                ..Policy::COUNTS
            },
            Self::AgentMissing | Self::AgentExits | Self::AgentLogin => Policy::UNAVAILABLE,
            Self::AgentVersion | Self::AgentSilent | Self::AgentUnknown => Policy::UNAVAILABLE,
            Self::FirstEmptyTurn => Policy {
                audience: Audience::Nobody,
                ..Policy::UNAVAILABLE.with_outcome(Outcome::NoSigil)
            },
            Self::RateLimit => Policy::of_account(1, 5 * 60),
            Self::Quota => Policy::of_account(60, 60 * 60),
            Self::Overload => Policy::of_account(1, 60),
            // A task with an empty answer waits longer, so that another one tries the account.
            Self::Outage => Policy::of_account(1, 5 * 60).with_delay(Delay::Pause),
            Self::Landing => Policy::ASKS,
            Self::Blocked | Self::GateOnBase => Policy::ASKS.with_outcome(Outcome::Failed),
            Self::Unanswered => Policy::ASKS.with_outcome(Outcome::Interrupted),
            Self::Budget | Self::Interrupted | Self::Drained | Self::RunLimit => Policy::ENDED,
            Self::GateUnsure => Policy::ENDED.with_outcome(Outcome::Void),
            Self::TakenAway | Self::OutOfContact => Policy::LOST,
            Self::WorkerDied => Policy::death(Counts::DeathAlone),
            Self::WorkersDied => Policy::death(Counts::DeathWithOthers),
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

    /// Whether it is nobody's fault: it counts as no iteration, and leaves no failure report.
    pub fn is_nobodys(self) -> bool {
        matches!(self.policy().outcome, Outcome::Unavailable | Outcome::Lost) || self == Self::FirstEmptyTurn
    }

    /// Whether another dispatch may succeed, since the environment failed and not the work.
    pub fn is_away(self) -> bool {
        matches!(self.policy().counts, Counts::Away | Counts::Lack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_words_match_their_json_names() {
        for failure in Failure::ALL {
            assert_eq!(serde_json::to_value(failure).unwrap(), failure.as_str());
        }
    }

    #[test]
    fn a_failure_of_an_agent_or_account_counts_for_nothing() {
        for failure in Failure::ALL {
            let policy = failure.policy();
            assert!(failure.means().ends_with('.'), "{failure:?}");
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
