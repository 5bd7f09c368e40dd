//! Finds the memory entries that help with a task, if any does (SPEC 6.5).
//!
//! Pure functions over analysed texts. The steps of a recall, for each kind of entry separately:
//!
//! | step | what it does |
//! | --- | --- |
//! | [`words`] | splits texts into words like a reader of code: identifiers and paths cut, stemmed, hashed |
//! | [`Query`] | turns a task into weighted words; the rare ones ask the index for candidates |
//! | [`candidates`] | chooses the entries with the most of these words, from the index alone |
//! | [`first_hits`] | finds the common files of the best candidates by a fielded BM25, which bring more candidates |
//! | [`rank()`] | fuses several views of each candidate to one score, with a confidence in the whole answer |
//! | [`Floor`] | the confidence below which nothing is shown, calibrated on the memory itself |
//! | [`Ranking::with_meaning`] | orders the best hits by vectors too, if a model makes them |
//! | [`Nearness`] | the meaning of distances in this memory, so that the floor covers words and vectors |
//! | [`expected`], [`factor`] | adjust weights of used entries by the ends of their attempts |
//! | [`select()`] | applies weights by verified outcomes, drops near-duplicates and far followers |
//!
//! The coordinator's `store::memory::index` reads candidates, and `crate::prompt` renders them.

pub mod lifecycle;
pub mod words;

mod arrival;
mod bm25;
mod credit;
mod doc;
mod feedback;
mod floor;
mod key;
mod lift;
mod likeness;
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

pub use crate::recall::similarity::{Nearness, Own, centre};
pub use arrival::{Arrival, Replaced, replaced};
pub use bm25::Stats;
pub use credit::{Circumstances, expected, factor};
pub use doc::{Analysed, Doc, analyse};
pub use feedback::{FileWeights, FirstHits, first_hits};
pub use floor::{CALIBRATION_DOCS, Floor, UNANSWERED, quantile_floor};
pub use key::{Kind, Scope};
pub use lift::{
    Ended, HELD_OUT_COUNTED, Lift, Stratum, Sums, Worth, held_out_share, is_harmful, lift, needed,
    pooled_difference, pooled_lift,
};
pub use likeness::{Likeness, Statement};
pub use merge::{is_same_content, merged_tags, replaces};
pub use posting::{Posting, candidates};
pub use query::{Lookup, POSTINGS, Query};
pub use rank::{Hit, Parts, Ranking, rank};
pub use select::{Chosen, Dropped, Entry, select, unlike};
