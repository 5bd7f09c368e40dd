//! The tools of the worker's user: compilers, interpreters, version managers, package managers. Commands that
//! work in the user's shell also work in sessions, setup and gates, although each has a private HOME and
//! can't write to the user's files.
//!
//! | module | content |
//! | --- | --- |
//! | [`table`] | the known tools: their folders, readable paths and variables |
//! | [`find`] | finds the user's tools |
//! | [`environment`](mod@environment) | the common environment of sessions, setup and gates |
//! | [`furnish`] | fills a private HOME: settings without secrets, links to downloads |

mod environment;
mod find;
mod furnish;
mod table;

pub use environment::{Surroundings, environment};
pub use find::{FoundTool, Tools};
pub use table::{TOOLS, Tool};
