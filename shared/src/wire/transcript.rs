//! The output of a running session: redacted, batched, bounded, for `logs` and for the record.

use serde::{Deserialize, Serialize};

use crate::ids::{DispatchId, Incarnation};

/// Several entries in one message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptBatch {
    pub v: u16,
    pub dispatch: DispatchId,
    /// The sender; only entries from the dispatch's worker are read.
    #[serde(default)]
    pub origin: Option<TranscriptOrigin>,
    pub entries: Vec<TranscriptEntry>,
}

/// The sender of a transcript. Only the incarnation itself and the coordinators know its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptOrigin {
    pub worker: String,
    pub incarnation: Incarnation,
}

/// A transcript that its worker keeps until a coordinator has all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetainedTranscript {
    pub dispatch: DispatchId,
    /// Number of its entries.
    pub entries: u64,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TranscriptEntry {
    /// Its number in the session, from 0, without gaps unless `Dropped` reports one.
    pub seq: u64,
    /// Time in milliseconds since the Unix epoch, by the worker's clock.
    pub at_ms: i64,
    /// The event.
    #[serde(flatten)]
    pub update: TranscriptUpdate,
}

/// The kind of event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "update", rename_all = "snake_case")]
pub enum TranscriptUpdate {
    /// The session began.
    Started {
        /// The agent's own name.
        agent: String,
        /// The model that was set, if any.
        model: Option<String>,
    },
    /// Message text of the agent.
    Text {
        /// The text; neighbours are joined.
        text: String,
    },
    /// Thoughts of the agent.
    Thought {
        /// The text; neighbours are joined.
        text: String,
    },
    /// A tool call began or changed.
    Tool {
        /// The agent's id of the call.
        id: String,
        /// Its title, if reported.
        title: Option<String>,
        /// `pending`, `in_progress`, `completed`, `failed`, if reported.
        status: Option<String>,
        /// Its input, if reported, as JSON text, bounded.
        input: Option<String>,
        /// Its output, if reported, bounded.
        output: Option<String>,
    },
    /// The agent's plan.
    Plan {
        /// Entries as `status: text`.
        entries: Vec<String>,
    },
    /// A request of the agent and its answer: permissions, files, terminals.
    Request {
        /// The method.
        method: String,
        /// The content of the request, bounded.
        detail: String,
        /// The answer.
        answer: String,
    },
    /// Usage so far.
    Usage {
        /// The agent's report, in words.
        text: String,
    },
    /// Other facts that the agent reported on its session: its commands, its mode, its options, a title, the
    /// prompt's echo.
    Session {
        /// The protocol's name of the update.
        kind: String,
        /// Its content, as JSON text, bounded.
        text: String,
    },
    /// A person sent a message to the session.
    Said {
        /// The name of their token.
        by: String,
        /// The message.
        text: String,
    },
    /// A message of the worker: a limit, a cancel, an error.
    Note {
        /// The message.
        text: String,
    },
    /// Entries that were dropped, since the transcript reached its limit.
    Dropped {
        /// Number of entries.
        count: u64,
    },
    /// The session ended.
    Ended {
        /// The end, in words.
        how: String,
    },
    /// An update of a later release.
    #[serde(other)]
    Unknown,
}
