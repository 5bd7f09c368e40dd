//! `status --watch` at a terminal: features, the tasks of one of them, its agents' log, and keys to
//! intervene (SPEC 9.3).
//!
//! | module | purpose |
//! | --- | --- |
//! | [`state`], `keys` | content and selection; a key becomes an [`Action`](state::Action), without I/O |
//! | `draw`, `log`, `fit` | draws the state, fitted to the screen |
//! | `live` | event loop: applies keys and news, performs actions |
//! | `news` | reads the coordinator |
//! | `order` | orders tasks as a tree |

mod draw;
mod fit;
mod keys;
mod live;
mod log;
mod news;
mod order;
mod state;

pub use live::watch;
