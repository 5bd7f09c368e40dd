//! Requests of a running session to its coordinator: an answer of a person, or entries of the memory. The
//! worker asks for its agent, for the dispatch that it holds.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{DispatchId, Incarnation};

/// One call of a session. Sent again, with the same ids, until it is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCall {
    pub dispatch: DispatchId,
    /// The worker's incarnation that holds the dispatch.
    pub incarnation: Incarnation,
    pub call: Call,
}

/// The kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Call {
    /// A person's answer.
    Ask {
        /// The question's id, made by the worker.
        id: Uuid,
        /// The question, redacted.
        asked: String,
        /// The possible answers; any answer if it is empty.
        choices: Vec<String>,
    },
    /// Entries of the memory that fit a query.
    MemorySearch { query: String },
    #[serde(other)]
    Unknown,
}

/// The coordinator's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum CallAnswer {
    /// A person may answer within this time. The answer comes with a heartbeat's.
    Wait {
        ms: u64,
    },
    /// Nobody answers in time: the agent gets this prompt.
    Decide {
        prompt: String,
    },
    Found {
        text: String,
    },
    /// It can't be done.
    Refused {
        reason: String,
    },
    #[serde(other)]
    Unknown,
}

/// A person's message to a running session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    pub id: Uuid,
    pub dispatch: DispatchId,
    /// The question that it answers, if it answers one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Uuid>,
    /// Its author.
    pub by: String,
    pub text: String,
    /// The agent's prompt with the message.
    pub prompt: String,
}
