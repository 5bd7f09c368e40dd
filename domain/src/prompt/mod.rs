//! Prompts: wording in templates, values from the caller, nothing else (SPEC 6.1).
//!
//! [`render()`] is a function of plain values. A prompt is a frame (instructions, the same for all prompts of
//! a kind, stored once) around a body (this dispatch's own). Memory sections keep their [`Budgets`] to the
//! character for any input, and their content is data: sigils are defused, headings and fences cannot be
//! forged (SPEC 6.2, 6.8).
//!
//! [`crate::recall`] chooses the entries, and the coordinator's `flow::assignment::context` reads them.

#[cfg(test)]
mod assigned_tests;
mod budget;
mod chat;
pub mod own_tasks;
mod render;
mod retry;
mod sections;
mod templates;
#[cfg(test)]
mod tests;
mod text;
mod tokens;
mod values;

pub use crate::prompt::retry::{
    after_exit, again, decide, of_a_conflict, operator_message, too_deep, unfinished,
};
pub use budget::{Budgets, Section, Share};
pub use chat::{ChatFeature, first_prompt};
pub use render::{Prompt, Rendered, SectionAccount, SectionFate, overlong, render};
pub use templates::{PromptOptions, TemplateError, Templates};
pub use tokens::{by_section, tokens};
pub use values::{
    Attempt, Conflict, Decision, HeldWork, JournalEntry, Judged, Knowledge, Learning, LoopStatus, Memory,
    Mergeable, Merging, Neighbour, OtherSide, Parent, Prerequisite, Provenance, Relation, Report,
    SessionMemory, SharedEntry, SiblingFailure, TaskContext, UnresolvedError, Verdict,
};
