//! Before a session ends, its worker asks whether the task graph in the agent's text can be used: the agent may correct it while
//! it still knows what it meant. Before a session begins, it asks whether its prompt still holds, with what it found in the commit
//! that the session starts from.

use serde::{Deserialize, Serialize};

use super::text::Text;
use crate::ids::{DispatchId, Incarnation};
use crate::wire::repo_scan::RepoScan;

/// "Can what this session said be used?" Or, with a survey: "Does its prompt still hold?"
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRequest {
    pub dispatch: DispatchId,
    /// The worker's incarnation that holds it.
    pub incarnation: Incarnation,
    /// The agent's message text, redacted; empty before the session.
    pub text: Text,
    /// What was found before the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<Box<RepoScan>>,
}

/// The coordinator's answer. Whatever it is, and if there is none, the session is reported in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum CheckAnswer {
    /// Nothing stands against it.
    Fine,
    /// The agent gets one more turn; before the session, another prompt.
    Again {
        /// What it is told.
        prompt: Text,
    },
    /// An answer of a later release.
    #[serde(other)]
    Unknown,
}
