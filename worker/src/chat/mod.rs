//! `ralph-worker chat`: an interactive session at a terminal, with an agent started like in `run` (SPEC 5,
//! 9.2).
//!
//! | module | content |
//! | --- | --- |
//! | [`args`] | flags |
//! | [`data_folder`] | detects Ralph's own data in the folder |
//! | [`conversation`] | the turns of agent and person |
//! | [`reader`] | lines from a terminal, with editing, or from a pipe |
//! | [`screen`] | the agent's activity as text |

mod args;
mod conversation;
mod data_folder;
mod reader;
mod screen;

pub use args::ChatArgs;
pub use conversation::chat;
