//! Before a session ends, its worker asks whether the task graph in the agent's text can be used: the agent may correct it while
//! it still knows what it meant.

use serde::{Deserialize, Serialize};

use super::text::Text;
use crate::ids::{DispatchId, Incarnation};

/// "Can what this session said be used?"
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRequest {
    /// The dispatch.
    pub dispatch: DispatchId,
    /// The worker's life that holds it.
    pub incarnation: Incarnation,
    /// The agent's message text, redacted.
    pub text: Text,
}

/// The coordinator's answer. Whatever it is, and if there is none, the session is reported in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum CheckAnswer {
    /// Nothing stands against it.
    Fine,
    /// The agent gets one more turn.
    Again {
        /// What it is told.
        prompt: Text,
    },
    /// An answer of a later release.
    #[serde(other)]
    Unknown,
}
