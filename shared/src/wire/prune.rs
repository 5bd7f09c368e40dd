//! A worker removes attempt refs whose retention ended, since coordinators have no git (DESIGN 6).

use serde::{Deserialize, Serialize};

use super::assignment::Repository;
use crate::ids::{DispatchId, FeatureId, Incarnation};

/// Asks which refs may be removed from repositories of these pools, and reports the result of the last
/// answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PruneRequest {
    pub worker: String,
    pub incarnation: Incarnation,
    pub pools: Vec<String>,
    /// The result of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Pruned>,
}

/// The result of a removal of refs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    pub feature: FeatureId,
    /// Dispatches whose refs are no longer at the remote.
    pub gone: Vec<DispatchId>,
    /// The reason why others are still there, if any are.
    pub error: Option<String>,
}

/// A ref to remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRef {
    /// The dispatch that pushed it, if any did.
    pub dispatch: DispatchId,
    /// Its full name.
    pub name: String,
}

/// The coordinator's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum PruneAnswer {
    /// No ref is to be removed now.
    Nothing,
    /// Refs to remove, all of one feature; there may be more.
    Refs {
        feature: FeatureId,
        repository: Repository,
        /// A commit of it, whose id shows the kind of object ids. Hex object id.
        base: String,
        refs: Vec<AttemptRef>,
    },
    /// An answer of a later release.
    #[serde(other)]
    Unknown,
}
