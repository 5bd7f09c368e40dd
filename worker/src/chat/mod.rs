//! `ralph-worker chat`: an interactive session at a terminal, with an agent that is started as in `run` (SPEC 5, 9.2).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`args`] | flags |
//! | [`data_folder`] | what lies in the folder that is no agent's business |
//! | [`conversation`] | the conversation with the person: whose turn it is |
//! | [`reader`] | lines from a terminal, with editing, or from a pipe |
//! | [`screen`] | what the agent does, as text |

mod args;
mod conversation;
mod data_folder;
mod reader;
mod screen;

pub use args::ChatArgs;
pub use conversation::chat;
