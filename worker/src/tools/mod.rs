//! The tools of the worker's user: compilers, interpreters, version managers, package managers. What works in the user's shell works in
//! a session, in setup and in a gate as well, though each has a private HOME and can't write what is the user's.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`table`] | each tool that is known: where it is, what of it may be read, how it is made to find itself |
//! | [`find`] | which of them this user has |
//! | [`environment`](mod@environment) | the one environment of sessions, setup and gates |
//! | [`furnish`] | what a private HOME gets: settings without secrets, links to downloads |

mod environment;
mod find;
mod furnish;
mod table;

pub use environment::{Surroundings, environment};
pub use find::{FoundTool, Tools};
pub use table::{TOOLS, Tool};
