//! Task graphs as they arrive: a YAML or JSON file, or the body of a `<task-graph>` sigil (SPEC 2.5, 2.6).
//!
//! [`load`] parses a text into a [`Graph`] that can be stored, or returns every problem: the whole graph is
//! accepted or none of it. The steps:
//!
//! | module | step |
//! | --- | --- |
//! | [`file`](mod@file) | the format, which is also the published JSON Schema |
//! | `read`, `entry`, `values` | text → [`GraphFile`], in one pass over the events of the parser |
//! | `fields` | each entry by itself: keys, titles, sizes, numbers, names |
//! | `resolve` | keys → indexes, each reference found or refused |
//! | [`order`] | an order in which all tasks can be done, or the cycles that forbid one |
//! | `check` | the steps together, and limits of the whole: [`Graph`] |
//! | `draw`, `waves` | the output of `--dry-run` |
//!
//! Everything is linear in the text (the order costs a heap) and uses loops, not recursion: a file of 100,000
//! tasks is ordinary, and a hostile one is merely refused. The caller passes known pools and agents in
//! [`Limits`], and attaches the graph to its parent.

mod check;
mod cycle;
mod draw;
mod entry;
mod fields;
pub mod file;
mod limits;
mod nearest;
mod node;
pub mod order;
mod printable;
mod problem;
#[cfg(test)]
mod properties;
mod read;
#[cfg(test)]
mod refusals;
mod resolve;
mod rows;
pub(crate) mod values;
mod waves;

pub use check::{load, validate};
pub use draw::draw;
pub use fields::{is_key, is_name};
pub use file::{GraphFile, Located, TaskEntry};
pub use limits::Limits;
pub use nearest::nearest;
pub use node::{Graph, Node};
pub use problem::{GraphErrors, Problem, ProblemKind};
pub use read::parse;
pub use waves::Waves;
