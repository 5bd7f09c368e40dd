//! A worker removes attempt refs whose retention ended, since coordinators have no git (DESIGN 6).

use serde::{Deserialize, Serialize};

use super::assignment::Repository;
use crate::ids::{DispatchId, FeatureId, Incarnation};

/// "What may go from repositories of these pools?" Says at the same time what became of what the answer before named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PruneRequest {
    /// The worker's name.
    pub worker: String,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The pools that it serves.
    pub pools: Vec<String>,
    /// What became of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Pruned>,
}

/// What became of refs that were to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    pub feature: FeatureId,
    /// Dispatches whose refs are not at the remote any more.
    pub gone: Vec<DispatchId>,
    /// Why others are still there, if any are.
    pub error: Option<String>,
}

/// One ref that may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRef {
    /// The dispatch that pushed it, if any did.
    pub dispatch: DispatchId,
    /// Its whole name.
    pub name: String,
}

/// The coordinator's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum PruneAnswer {
    /// Nothing is to go now.
    Nothing,
    /// These are, all of one feature; there may be more.
    Refs {
        feature: FeatureId,
        repository: Repository,
        /// A commit of it, whose id tells its kind of ids. Hex object id.
        base: String,
        refs: Vec<AttemptRef>,
    },
    /// An answer of a later release.
    #[serde(other)]
    Unknown,
}
