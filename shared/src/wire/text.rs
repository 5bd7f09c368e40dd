//! Long texts on the wire: inline while they are short, else the hash of parts that are stored before the
//! message that names them (DESIGN 3).

use crate::at_length::by_length;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Size of one part; with its base64 frame it stays below [`crate::subjects::MAX_MESSAGE_BYTES`]. Bytes.
pub const PART_BYTES: usize = 256 * 1024;

/// Longest text in parts: longer than any session's text with default limits. Bytes.
pub const MAX_TEXT_BYTES: usize = 64 * 1024 * 1024;

/// A text inside a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// The text itself.
    Inline(String),
    /// The coordinator stores its parts under their hash.
    Parts {
        /// SHA-256 of the whole text, lower-case hex.
        sha256: String,
        /// Size of the whole text in bytes.
        size_bytes: u64,
    },
}

impl Default for Text {
    fn default() -> Self {
        Self::Inline(String::new())
    }
}

impl Text {
    /// Number of parts of [`PART_BYTES`]; 0 when it is inline.
    pub fn part_count(&self) -> u32 {
        match self {
            Self::Inline(_) => 0,
            Self::Parts { size_bytes, .. } => {
                u32::try_from(size_bytes.div_ceil(PART_BYTES as u64)).unwrap_or(u32::MAX)
            }
        }
    }
}

/// Parts that don't make the text of a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error("the text {sha256} is missing or incomplete")]
    Missing { sha256: String },
    #[error("the text {sha256} has {size_bytes} bytes, and at most {MAX_TEXT_BYTES} are read")]
    TooLong { sha256: String, size_bytes: u64 },
    #[error("the parts of the text {sha256} hash to {actual}")]
    WrongHash { sha256: String, actual: String },
}

/// SHA-256 as lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    by_length(bytes.len(), || Sha256::digest(bytes))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_text_is_a_plain_json_string() {
        assert_eq!(serde_json::to_string(&Text::Inline("a".into())).unwrap(), "\"a\"");
        let parts: Text = serde_json::from_str(r#"{"sha256":"00","size_bytes":262145,"later":1}"#).unwrap();
        assert_eq!(parts.part_count(), 2);
    }

    #[test]
    fn hash_is_the_known_one() {
        assert_eq!(
            sha256_hex(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
