//! Claims: a slot asks for work. The claim's id becomes the dispatch's, so that a repeated claim gets the
//! same answer (DESIGN 2).

use serde::{Deserialize, Serialize};

use super::assignment::Assignment;
use crate::ids::{DispatchId, Incarnation};

/// "A slot is free."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// Versions that the worker reads.
    pub reads: Vec<u16>,
    pub worker: String,
    pub incarnation: Incarnation,
    /// The id of the dispatch, if there will be one.
    pub claim: DispatchId,
    pub pools: Vec<String>,
    /// Agents that it can start now, without unavailable ones. It gets no task that needs another agent.
    pub agents: Vec<String>,
    /// Longest time for which the coordinator may hold the claim while there is no work. Milliseconds; 0 for
    /// an immediate answer.
    #[serde(default)]
    pub wait_ms: u64,
    /// Whether the worker can try a gate on a base commit; earlier releases can't.
    #[serde(default)]
    pub checks: bool,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ClaimAnswer {
    Assigned {
        assignment: Box<Assignment>,
    },
    /// No task is ready in these pools.
    Nothing,
    /// Not now: the coordinator is busy, the worker must drain, or a limit holds the pool back.
    NotNow {
        reason: String,
        /// Pause before the next claim. Milliseconds.
        retry_after_ms: u64,
    },
    /// The incarnation is unknown: send a hello first.
    SayHello,
    #[serde(other)]
    Unknown,
}
