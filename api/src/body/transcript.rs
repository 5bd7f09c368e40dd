//! Transcripts and prompts.

use ralph_shared::wire::TranscriptEntry;
use serde::{Deserialize, Serialize};

use super::memory::SectionView;
use crate::view::{TranscriptOf, UseView};
use ralph_domain::prompt::{self, Prompt};

/// The part of a transcript that is known so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Transcript {
    /// Session of the transcript.
    #[serde(flatten)]
    pub of: TranscriptOf,
    /// Entries in order.
    pub items: Vec<TranscriptEntry>,
}

/// An event of a live transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Following {
    /// The entries that follow belong to this dispatch.
    Dispatch(TranscriptOf),
    /// A new entry.
    Entry(TranscriptEntry),
    /// The end of the transcript.
    End {
        /// The task's status.
        status: String,
    },
}

/// The size of a prompt's section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SectionTokens {
    /// Heading of the section.
    pub name: String,
    /// A quarter of its characters.
    pub tokens: usize,
}

impl SectionTokens {
    pub fn of(frame: &str, body: &str) -> Vec<Self> {
        let sections = prompt::by_section(&Prompt::join(frame, body)).into_iter();
        sections.map(|(name, tokens)| Self { name, tokens }).collect()
    }
}

/// A prompt that was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PromptSent {
    /// Session that received the prompt.
    #[serde(flatten)]
    pub of: TranscriptOf,
    /// The instructions that all prompts of the kind share.
    pub frame: String,
    /// The part for this session.
    pub body: String,
    /// Approximate number of tokens of each section, in order.
    #[serde(default)]
    pub tokens: Vec<SectionTokens>,
    /// The memory sections, the most important first.
    #[serde(default)]
    pub sections: Vec<SectionView>,
    /// Memory entries that were shown, then entries that were left out and why.
    #[serde(default)]
    pub items: Vec<UseView>,
}
