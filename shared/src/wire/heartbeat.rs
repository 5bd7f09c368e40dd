//! Heartbeats renew leases, and their answers bring settlements and orders (DESIGN 2).

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
    pub worker: String,
    pub incarnation: Incarnation,
    /// Dispatches whose session or integration runs.
    pub running: Vec<DispatchId>,
    /// Dispatches whose report is in the spool.
    pub spooled: Vec<DispatchId>,
    /// Slots without work.
    pub free_slots: u32,
    /// Whether the worker takes no more work.
    pub draining: bool,
    /// Its unavailable agents, which it doesn't start now.
    #[serde(default)]
    pub doors: Vec<ClosedAgent>,
    /// Dispatches of `running` whose agent became available since the last answered heartbeat: its model
    /// answers.
    #[serde(default)]
    pub answered: Vec<DispatchId>,
    /// Usage of the dispatches of `running` so far, as far as it is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<DispatchUsage>,
    /// Some of the transcripts of ended sessions that aren't known to be stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transcripts: Vec<RetainedTranscript>,
    /// Ids of people's messages that its sessions received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<Uuid>,
    /// Size of cached build output for later checkouts. Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_bytes: Option<u64>,
}

/// The result of a report at the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// It changed the task.
    Applied,
    /// It came after the fence had moved: its usage and branch are stored, but it changed no state.
    Superseded,
    /// The dispatch is unknown, for example after a change of the database: the worker sets a copy aside and
    /// forgets it.
    UnknownDispatch,
    /// A result of a later release: the worker sets a copy aside as well.
    #[serde(other)]
    Unknown,
}

/// A dispatch that needs no more care from the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    pub dispatch: DispatchId,
    pub settlement: Settlement,
    /// Whether the report said that all its work is pushed: then the worker has nothing more to report on it.
    #[serde(default)]
    pub pushed: bool,
}

/// An order to end a running dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub dispatch: DispatchId,
    pub reason: EndReason,
}

/// The answer, sent after the commit of the renewals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum HeartbeatAnswer {
    /// The leases of all named dispatches last for another whole lease.
    Renewed {
        /// Spooled reports that may be deleted.
        settled: Vec<Settled>,
        /// Sessions to end.
        end: Vec<End>,
        /// Whether to take no more work.
        drain: bool,
        /// New shares of dispatches that asked for more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shares: Vec<Granted>,
        /// Transcripts of the heartbeat that are stored now, so the worker may forget them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        archived: Vec<DispatchId>,
        /// People's messages to its sessions, until they are received.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        words: Vec<Words>,
    },
    /// The incarnation is unknown or no longer the current one: send a hello.
    SayHello,
    #[serde(other)]
    Unknown,
}
