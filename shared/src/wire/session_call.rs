//! What a running session wants of its coordinator: an answer of a person, or something of the memory. The worker asks for its
//! agent, of the dispatch that it holds.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{DispatchId, Incarnation};

/// One call of a session. Sent again, with the same ids, until it is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCall {
    pub dispatch: DispatchId,
    /// The worker's incarnation that holds it.
    pub incarnation: Incarnation,
    pub call: Call,
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Call {
    /// A person's answer.
    Ask {
        /// The question's id, made by the worker.
        id: Uuid,
        /// What is asked, redacted.
        asked: String,
        /// What can be answered; anything where it is empty.
        choices: Vec<String>,
    },
    /// Entries of the memory that say something of this.
    MemorySearch { query: String },
    /// A call of a later release.
    #[serde(other)]
    Unknown,
}

/// The coordinator's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum CallAnswer {
    /// A person may answer so long from now. The answer comes with a heartbeat's.
    Wait { ms: u64 },
    /// Nobody answers in time: the agent is told this.
    Decide { prompt: String },
    /// What was found.
    Found { text: String },
    /// It can't be done.
    Refused { reason: String },
    /// An answer of a later release.
    #[serde(other)]
    Unknown,
}

/// What a person says to a session that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    pub id: Uuid,
    pub dispatch: DispatchId,
    /// The question that it answers, if it answers one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Uuid>,
    /// Who says it.
    pub by: String,
    /// What they say.
    pub text: String,
    /// What the agent is told.
    pub prompt: String,
}
