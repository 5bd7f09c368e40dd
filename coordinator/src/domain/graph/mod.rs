//! The task graph as it arrives: a YAML or JSON file, or what an agent put in a `<task-graph>` sigil (SPEC 2.5, 2.6).
//!
//! [`load`] reads a text and gives a [`Graph`] that can be stored as it stands, or every reason why not: the whole
//! graph is accepted or none of it. The way of a file:
//!
//! | module | step |
//! | --- | --- |
//! | [`file`](mod@file) | what an author may write, which is also the published JSON Schema |
//! | `read`, `entry`, `values` | text → [`GraphFile`], in one pass over the events of the parser |
//! | `fields` | each entry by itself: keys, titles, sizes, numbers, names |
//! | `resolve` | keys → indexes, each reference found or refused |
//! | [`order`] | an order in which all of it can be done, or the circles that forbid one |
//! | `check` | the steps together, and the limits of the whole: [`Graph`] |
//! | `draw`, `waves` | what `--dry-run` tells |
//!
//! Everything here is linear in the text (the order costs a heap) and works with loops and not by recursion, so that
//! a file of 100,000 tasks is an ordinary one and a hostile one is merely refused. Which pools and agents exist is
//! the caller's knowledge, handed over in [`Limits`]; what a graph hangs under is the caller's business.

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
mod values;
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
