//! The holder of an integration turn asks whether it may push (DESIGN 6).

use serde::{Deserialize, Serialize};

use crate::ids::{DispatchId, Incarnation};

/// Asks whether the feature branch may move from `old` to `new`. `new` is already on the dispatch's own
/// attempt ref.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecideRequest {
    /// The integrating dispatch.
    pub dispatch: DispatchId,
    /// The worker's incarnation that holds the dispatch.
    pub incarnation: Incarnation,
    /// The branch's head that the rebase used; all zeros when the branch doesn't exist yet. Hex object id.
    pub old: String,
    /// The commit that becomes the head. Hex object id.
    pub new: String,
}

/// The coordinator's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum DecideAnswer {
    /// The feature's only open integration is stored: push it.
    Decided,
    /// The dispatch is not the task's current one, or holds no turn: push nothing.
    Refused { reason: String },
    /// The coordinator can't answer now; ask again with the same values.
    Failed { reason: String },
}
