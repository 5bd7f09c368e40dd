//! The memory: texts of earlier iterations, and their selection for prompts (SPEC 6).
//!
//! | module | content |
//! | --- | --- |
//! | [`context`] | reads the memory for a batch of claims and arranges it for each prompt |
//! | `questions`, [`recall`], [`select`] | query the index, rank the hits, choose entries to show |
//! | [`embedding`], [`embed_entries`], [`similarity`] | use an embedding model, if one is configured |
//! | `layout`, `wording` | fit entries into the prompt's budget and phrase them |
//! | [`capture`] | stores the memory of a report: failure reports, learnings, knowledge, notes |
//! | [`copies`] | makes copies witnesses of one entry, and follows a revoked one to its copies |
//! | [`credit`] | changes the weights of entries that attempts used |
//! | [`worth`] | switches off memories that make results worse |
//! | [`repo_scan`] | imports the repository's own knowledge at the commit that a session starts from |
//! | [`library`] | serves people: fill, search, correct |
//! | [`upkeep`], [`lifecycle`], [`distill`] | keep the memory within its bounds and merge similar entries |

pub mod capture;
pub mod context;
pub mod copies;
pub mod credit;
pub mod distill;
pub mod embed_entries;
pub mod embedding;
pub(crate) mod layout;
pub mod library;
pub mod lifecycle;
pub(crate) mod questions;
pub mod recall;
pub mod repo_scan;
pub mod select;
pub mod similarity;
pub mod upkeep;
pub(crate) mod wording;
pub mod worth;
