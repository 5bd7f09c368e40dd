//! `status --watch` at a terminal: features, the tasks of one of them, what its agents do, and keys to step in (SPEC 9.3).
//!
//! | module | what it does |
//! | --- | --- |
//! | [`state`] | what is shown and selected; a key becomes an [`Action`](state::Action), without I/O |
//! | `draw` | the state on the screen |
//! | `live` | reads the coordinator, asks the state, does what it says |

mod draw;
mod live;
mod state;

pub use live::watch;
