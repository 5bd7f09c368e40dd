//! Which remembered entries help with a task, and whether any does (SPEC 6.5).
//!
//! Pure functions over analysed texts. The way of a recall, for each kind of entry by itself:
//!
//! | step | what it does |
//! | --- | --- |
//! | [`words`] | texts become words as a reader of code sees them: identifiers and paths cut, stemmed, hashed |
//! | [`Query`] | a task becomes weighted words; the rare ones ask the index for candidates |
//! | [`candidates`] | the entries that have the most of these words, from the index alone |
//! | [`first_hits`] | a fielded BM25 finds the files that the best candidates share, which ask for more candidates |
//! | [`rank()`] | several views of each candidate are fused to one score, with a confidence in the whole answer |
//! | [`Floor`] | below it nothing is shown; calibrated on the memory itself, so that it scales with it |
//! | [`Ranking::with_meaning`] | where an outside model makes vectors, the best hits are ordered by these as well |
//! | [`Nearness`] | what these mean in this memory, so that the floor can be asked of words and vectors together |
//! | [`select()`] | weights by verified outcomes, near-duplicates and far followers dropped |
//!
//! Left to others: reading candidates (`crate::store::memory::index`), and laying them out (`crate::prompt`).

pub mod lifecycle;
pub mod words;

mod bm25;
mod doc;
mod feedback;
mod floor;
mod key;
mod lift;
mod meaning;
mod merge;
mod packed;
mod posting;
mod query;
mod rank;
mod select;
mod similarity;
#[cfg(test)]
mod tests;

pub use crate::domain::recall::similarity::{Nearness, Own, centre};
pub use bm25::Stats;
pub use doc::{Analysed, Doc, analyse};
pub use feedback::{FileWeights, FirstHits, first_hits};
pub use floor::{CALIBRATION_DOCS, Floor, UNANSWERED, quantile_floor};
pub use key::{Kind, Scope};
pub use lift::{Ended, Lift, lift};
pub use merge::{merged_tags, replaces, says_same};
pub use posting::{Posting, candidates};
pub use query::{Lookup, POSTINGS, Query};
pub use rank::{Hit, Parts, Ranking, rank};
pub use select::{Chosen, Dropped, Entry, select, unlike};
