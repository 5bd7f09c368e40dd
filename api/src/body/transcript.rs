//! Transcripts and prompts.

use ralph_shared::wire::TranscriptEntry;
use serde::{Deserialize, Serialize};

use super::memory::SectionView;
use crate::view::{TranscriptOf, UseView};
use ralph_domain::prompt::{self, Prompt};

/// A transcript as far as it is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Transcript {
    /// Whose.
    #[serde(flatten)]
    pub of: TranscriptOf,
    /// What happened, in order.
    pub items: Vec<TranscriptEntry>,
}

/// An event of a transcript that is followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Following {
    /// What follows is this dispatch's.
    Dispatch(TranscriptOf),
    /// Something happened.
    Entry(TranscriptEntry),
    /// Nothing more will come.
    End {
        /// The task's status.
        status: String,
    },
}

/// How much of a prompt a section takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SectionTokens {
    /// Its heading.
    pub name: String,
    /// A fourth of its characters.
    pub tokens: usize,
}

impl SectionTokens {
    /// Those of a prompt.
    pub fn of(frame: &str, body: &str) -> Vec<Self> {
        let sections = prompt::by_section(&Prompt::join(frame, body)).into_iter();
        sections.map(|(name, tokens)| Self { name, tokens }).collect()
    }
}

/// A prompt that was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PromptSent {
    /// To whom.
    #[serde(flatten)]
    pub of: TranscriptOf,
    /// The instructions that all prompts of the kind share.
    pub frame: String,
    /// What was said to this one.
    pub body: String,
    /// About how many tokens each section takes, in order.
    #[serde(default)]
    pub tokens: Vec<SectionTokens>,
    /// What became of each section that holds memory, the most important first.
    #[serde(default)]
    pub sections: Vec<SectionView>,
    /// What was shown of what is remembered, then what was left out and why.
    #[serde(default)]
    pub items: Vec<UseView>,
}
