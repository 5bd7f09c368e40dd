//! Before a session ends, its worker asks whether the task graph in the agent's text can be used: the agent
//! may correct it while it still knows its intention. Before a session begins, the worker asks whether its
//! prompt is still valid, after a scan of the commit that the session starts from.

use serde::{Deserialize, Serialize};

use super::text::Text;
use crate::ids::{DispatchId, Incarnation};
use crate::wire::repo_scan::RepoScan;

/// Asks whether the session's text can be used; with a survey, whether its prompt is still valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRequest {
    pub dispatch: DispatchId,
    /// The worker's incarnation that holds the dispatch.
    pub incarnation: Incarnation,
    /// The agent's message text, redacted; empty before the session.
    pub text: Text,
    /// The result of the scan before the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<Box<RepoScan>>,
}

/// The coordinator's answer. With any answer, and without one, the session is reported in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum CheckAnswer {
    /// There is no objection.
    Fine,
    /// The agent gets one more turn; before the session, another prompt.
    Again { prompt: Text },
    #[serde(other)]
    Unknown,
}
