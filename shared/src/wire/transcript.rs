//! What a session shows while it runs: redacted, batched, bounded, for `logs` and for the record.

use serde::{Deserialize, Serialize};

use crate::ids::{DispatchId, Incarnation};

/// Several entries in one message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptBatch {
    /// The message's version.
    pub v: u16,
    pub dispatch: DispatchId,
    /// Who sends it; what doesn't come from the dispatch's worker is not read.
    #[serde(default)]
    pub origin: Option<TranscriptOrigin>,
    /// The entries, in order.
    pub entries: Vec<TranscriptEntry>,
}

/// Whose a transcript is. What knows a life's number is that life and the coordinators alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptOrigin {
    /// The worker's name.
    pub worker: String,
    /// This incarnation of it.
    pub incarnation: Incarnation,
}

/// A transcript that its worker keeps until a coordinator has all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetainedTranscript {
    pub dispatch: DispatchId,
    /// How many entries it has.
    pub entries: u64,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TranscriptEntry {
    /// Its number in the session, from 0, without gaps unless `Dropped` says so.
    pub seq: u64,
    /// When, in milliseconds since the Unix epoch, by the worker's clock.
    pub at_ms: i64,
    /// What.
    #[serde(flatten)]
    pub update: TranscriptUpdate,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "update", rename_all = "snake_case")]
pub enum TranscriptUpdate {
    /// The session began.
    Started {
        /// The agent, as it names itself.
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
        /// Its title, when told.
        title: Option<String>,
        /// `pending`, `in_progress`, `completed`, `failed`, when told.
        status: Option<String>,
        /// Its input, when told, as JSON text, bounded.
        input: Option<String>,
        /// Its output, when told, bounded.
        output: Option<String>,
    },
    /// The agent's plan.
    Plan {
        /// Entries as `status: text`.
        entries: Vec<String>,
    },
    /// Something the agent asked for and what it got: permissions, files, terminals.
    Request {
        /// The method.
        method: String,
        /// What was asked, bounded.
        detail: String,
        /// What was answered.
        answer: String,
    },
    /// Usage so far.
    Usage {
        /// As far as the agent said so, in words.
        text: String,
    },
    /// What else the agent told of its session: its commands, its mode, its options, a title, the prompt's echo.
    Session {
        /// The protocol's name of the update.
        kind: String,
        /// What it said, as JSON text, bounded.
        text: String,
    },
    /// A person said something to the session.
    Said {
        /// The name of their token.
        by: String,
        /// What they said.
        text: String,
    },
    /// Something the worker has to say: a limit, a cancel, an error.
    Note {
        /// The words.
        text: String,
    },
    /// Entries that were not kept, since the transcript reached its limit.
    Dropped {
        /// How many.
        count: u64,
    },
    /// The session ended.
    Ended {
        /// How, in words.
        how: String,
    },
    /// An update of a later release.
    #[serde(other)]
    Unknown,
}
