//! Decisions, edits and messages of people.

pub(crate) mod again;
pub(crate) mod approval;
pub(crate) mod decisions;
pub(crate) mod edits;
pub(crate) mod feature_edits;
pub(crate) mod graph;
pub(crate) mod idea;
pub(crate) mod pauses;
pub(crate) mod protect;
pub(crate) mod questions;
pub(crate) mod tools;
pub(crate) mod two_people;
pub(crate) mod why_waiting;
