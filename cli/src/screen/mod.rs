//! `status --watch` at a terminal: features, the tasks of one of them, what its agents do, and keys to step in (SPEC 9.3).
//!
//! | module | what it does |
//! | --- | --- |
//! | [`state`], `keys` | what is shown and selected; a key becomes an [`Action`](state::Action), without I/O |
//! | `draw`, `log`, `fit` | the state on the screen, as far as there is room |
//! | `live` | takes keys and news, asks the state, does what it says |
//! | `news` | reads the coordinator |
//! | `order` | tasks in the order of their tree |

mod draw;
mod fit;
mod keys;
mod live;
mod log;
mod news;
mod order;
mod state;

pub use live::watch;
