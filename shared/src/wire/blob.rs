//! Texts that are too large for one message, in parts (DESIGN 3).

use serde::{Deserialize, Serialize};

/// A part that goes to or comes from the coordinator. Storing the same part twice is harmless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum BlobRequest {
    /// Stores part `index` of the text.
    Put {
        /// SHA-256 of the whole text, lower-case hex.
        sha256: String,
        /// Number of the part, from 0.
        index: u32,
        /// The part's bytes, base64; all parts but the last have [`super::PART_BYTES`] bytes.
        base64: String,
    },
    /// Asks for part `index` of the text.
    Get {
        /// SHA-256 of the whole text, lower-case hex.
        sha256: String,
        /// Number of the part, from 0.
        index: u32,
    },
}

/// The coordinator's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum BlobAnswer {
    /// The part is stored, durably.
    Stored,
    Part {
        /// Its bytes, base64.
        base64: String,
    },
    /// There is no such part.
    Missing,
    /// The coordinator can't answer now; ask again.
    Failed { reason: String },
}
