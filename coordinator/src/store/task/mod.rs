//! Tasks: rows, texts, edges, and the counters that make readiness an index lookup (DESIGN 4).
//!
//! | module | contents |
//! | --- | --- |
//! | `new` | inserts many new tasks at once |
//! | `row` | a single task |
//! | `blockers` | consequences of a resolved task for dependents |
//! | `failures` | consequences of a failure for ancestors and siblings |
//! | `family` | consequences for ancestors and descendants |

mod blockers;
pub mod dependencies;
mod failures;
mod family;
mod new;
mod row;
pub mod waits;

pub use blockers::{Unblocked, open_children_of, unblock_dependents};
pub use failures::{
    Unfailed, fail_ancestors, failed_leaves_below, hold_beside, hold_new, release_held, unfail_parents,
};
pub use family::{
    ClosedParent, become_parent, depth, made_of_parts, open_leaves, reopen_parents, resolve_parents,
};
pub use new::{NewTask, insert, insert_begun};
pub use row::{
    Moved, Task, explain, feature_of, hint_model, keys_beginning, lock, log, pass_models_on, pool_of, save,
    state_of,
};
