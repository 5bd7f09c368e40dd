//! The introduction of a worker's incarnation, before it does anything else (DESIGN 2, workers).

use serde::{Deserialize, Serialize};

use super::rule::AgentRule;
use crate::ids::{DispatchId, Incarnation};

/// Sent once at the start, and again whenever the coordinator doesn't know the incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Versions that the worker reads.
    pub reads: Vec<u16>,
    /// The worker's name, which survives restarts.
    pub worker: String,
    pub incarnation: Incarnation,
    /// Identity of its data folder: the same name with another folder is another worker.
    pub data_id: String,
    /// Pools that it serves.
    pub pools: Vec<String>,
    /// Number of simultaneous sessions.
    pub slots: u32,
    /// Names of the agents that it can start; the default one is `default`.
    pub agents: Vec<String>,
    /// The account of each of them, in the same order; a missing one is the agent's name.
    #[serde(default)]
    pub accounts: Vec<String>,
    /// The sessions that they get when nobody names an agent.
    #[serde(default)]
    pub rules: Vec<AgentRule>,
    /// Dispatches of earlier incarnations whose report it still holds. All other leases of those incarnations
    /// have ended.
    pub spooled: Vec<DispatchId>,
    /// The program's version.
    pub version: String,
    pub host: String,
    /// The process id there.
    pub pid: u32,
}

/// The coordinator's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum HelloAnswer {
    /// The worker may claim.
    Welcome {
        /// Version of further messages.
        v: u16,
        /// Interval of heartbeats. Milliseconds.
        heartbeat_ms: u64,
        /// Length of a lease after an answered heartbeat. Milliseconds.
        lease_ms: u64,
        /// Longest time for which a worker without contact lets its sessions continue. Milliseconds.
        dark_limit_ms: u64,
    },
    /// The worker may not work under this name now.
    Refused {
        /// The problem and the remedy, for the worker's log.
        reason: String,
        /// Pause before the next try; `None` means never. Milliseconds.
        retry_after_ms: Option<u64>,
    },
    #[serde(other)]
    Unknown,
}
