//! Heartbeats renew leases, tell what was settled and carry orders back (DESIGN 2).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::control::EndReason;
use super::session_call::Words;
use super::transcript::RetainedTranscript;
use super::usage::{DispatchUsage, Granted};
use crate::ids::{DispatchId, Incarnation};
use crate::wire::availability::ClosedAgent;

/// Sent every few seconds. A dispatch stays in it, and so leased, until its report is settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Versions that the worker reads.
    pub reads: Vec<u16>,
    /// The worker's name.
    pub worker: String,
    /// This incarnation of it.
    pub incarnation: Incarnation,
    /// Dispatches whose session or integration runs.
    pub running: Vec<DispatchId>,
    /// Dispatches whose report lies in the spool.
    pub spooled: Vec<DispatchId>,
    /// Slots without work.
    pub free_slots: u32,
    /// Whether the worker takes no more work.
    pub draining: bool,
    /// Its agents that fail at the door, which it doesn't start now.
    #[serde(default)]
    pub doors: Vec<ClosedAgent>,
    /// Dispatches of `running` whose agent got past the door since the last heartbeat that was answered: its model answers.
    #[serde(default)]
    pub answered: Vec<DispatchId>,
    /// What the dispatches of `running` used so far, as far as it is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<DispatchUsage>,
    /// Transcripts of ended sessions that aren't known to be kept, some of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transcripts: Vec<RetainedTranscript>,
    /// What people said to its sessions and was handed to them, by its ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<Uuid>,
    /// What it keeps of build output for later checkouts. Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_bytes: Option<u64>,
}

/// How a report ended on the coordinator's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// It changed the task.
    Applied,
    /// It came after the fence had moved: kept with its usage and branch, but it changed no state.
    Superseded,
    /// Nobody knows the dispatch (a database was replaced, say): the worker keeps a copy aside and forgets it.
    UnknownDispatch,
    /// An end of a later release: the worker keeps a copy aside as well.
    #[serde(other)]
    Unknown,
}

/// A dispatch that needs no more care by the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    pub dispatch: DispatchId,
    pub settlement: Settlement,
    /// Whether the report told that all its work is pushed: of a dispatch that was reported before nothing is left to be told.
    #[serde(default)]
    pub pushed: bool,
}

/// An order to end a running dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub dispatch: DispatchId,
    /// Why.
    pub reason: EndReason,
}

/// The answer, sent after the renewals were committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum HeartbeatAnswer {
    /// The leases of everything named run for another whole lease.
    Renewed {
        /// Spooled reports that may be deleted.
        settled: Vec<Settled>,
        /// Sessions to end.
        end: Vec<End>,
        /// Whether to take no more work.
        drain: bool,
        /// What those may use that asked for more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shares: Vec<Granted>,
        /// Of `transcripts`, those that are kept now: the worker may forget them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        archived: Vec<DispatchId>,
        /// What people say to its sessions, until it is heard.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        words: Vec<Words>,
    },
    /// The incarnation is not known or no longer the current one: say hello.
    SayHello,
    /// An answer of a later release.
    #[serde(other)]
    Unknown,
}
