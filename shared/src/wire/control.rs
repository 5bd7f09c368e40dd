//! Orders to one worker. The heartbeat's answer carries the same orders later (DESIGN 1.5).

use serde::{Deserialize, Serialize};

use super::heartbeat::Settled;
use crate::ids::DispatchId;

/// The reason for an end from outside (SPEC 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// A person interrupted it.
    Interrupted,
    Drain,
    /// A limit of the run was reached.
    RunLimit,
    /// The dispatch is no longer the task's current one.
    Fenced,
    /// The worker was out of contact for longer than its dark limit.
    OutOfContact,
    /// The worker's process died while it ran, and no other dispatch was lost with it.
    DiedAlone,
    /// The worker's process died while it ran, and other dispatches were lost with it.
    DiedWithOthers,
    /// It asked a person something, and nobody answered in time.
    Unanswered,
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Control {
    /// End one session gracefully and report it.
    End { dispatch: DispatchId, reason: EndReason },
    /// Send a heartbeat now: its answer has news.
    Beat,
    /// Reports that were settled just now: they leave the spool and the heartbeats.
    Settled { settled: Vec<Settled> },
    /// Ask now which attempt refs may be removed.
    Prune,
    /// Take no more work, finish what runs.
    Drain,
    #[serde(other)]
    Unknown,
}
