//! `ralph-worker chat`: an interactive session at a terminal, with an agent that is started as in `run` (SPEC 5, 9.2).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`args`] | flags |
//! | [`talk`] | the conversation with the person: whose turn it is |
//! | [`reader`] | lines from a terminal, with editing, or from a pipe |
//! | [`screen`] | what the agent does, as text |

mod args;
mod reader;
mod screen;
mod talk;

pub use args::ChatArgs;
pub use talk::chat;
