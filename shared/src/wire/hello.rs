//! How an incarnation of a worker introduces itself, before it does anything else (DESIGN 2, workers).

use serde::{Deserialize, Serialize};

use super::rule::AgentRule;
use crate::ids::{DispatchId, Incarnation};

/// Sent once at the start, and again whenever the coordinator says that it doesn't know the incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Versions that the worker reads.
    pub reads: Vec<u16>,
    /// The worker's name, which survives restarts.
    pub worker: String,
    /// This incarnation of it.
    pub incarnation: Incarnation,
    /// Identity of its data folder: the same name from another folder is somebody else.
    pub data_id: String,
    /// Pools that it serves.
    pub pools: Vec<String>,
    /// How many sessions it runs at once.
    pub slots: u32,
    /// Names of the agents that it can start; the default one is `default`.
    pub agents: Vec<String>,
    /// The account of each of them, in the same order; the agent's name where one is missing.
    #[serde(default)]
    pub accounts: Vec<String>,
    /// What they are taken for where nobody names one.
    #[serde(default)]
    pub rules: Vec<AgentRule>,
    /// Dispatches of earlier lives whose report it still holds. Every other lease of those lives has ended.
    pub spooled: Vec<DispatchId>,
    /// The program's version.
    pub version: String,
    /// The machine's name.
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
        /// How often to send a heartbeat. Milliseconds.
        heartbeat_ms: u64,
        /// How long a lease lasts after a heartbeat was answered. Milliseconds.
        lease_ms: u64,
        /// How long a worker out of contact lets its sessions go on. Milliseconds.
        dark_limit_ms: u64,
    },
    /// The worker may not work under this name now.
    Refused {
        /// What is wrong and what to do, for the worker's log.
        reason: String,
        /// When asking again makes sense; never when `None`. Milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// An answer of a later release.
    #[serde(other)]
    Unknown,
}
