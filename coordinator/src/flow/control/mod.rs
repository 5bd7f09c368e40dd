//! Commands of people on features and tasks while they run (SPEC 2.4, 3.6, 7.4; DESIGN 2).
//!
//! done, fail, cancel, skip and release move the fence: the session ends, and its report no longer changes
//! anything. interrupt does not: the session ends in order, and its report counts.
//!
//! | module | content |
//! | --- | --- |
//! | `command` | legal commands on a task, and their target states |
//! | `task` | executes a command |
//! | `retry` | retries |
//! | `proposal` | requests of a build or a review that a person ends |
//! | `subtasks` | refers commands on a split task to its parts |
//! | `chat` | messages to running and future sessions, answers to their questions |
//! | `feature` | commands on a whole feature |

pub mod approve;
mod chat;
mod command;
mod feature;
mod proposal;
mod retry;
pub(crate) mod run_alone;
mod subtasks;
mod task;

pub use crate::flow::control::chat::{answer, feedback, interrupt, say};
pub(super) use crate::flow::control::subtasks::refer;
pub use command::{By, CommandOutcome, TaskCommand};
pub use feature::{FeatureCommand, feature, feature_by};
pub use task::task;
pub(super) use task::{fence_off, fence_off_because, task_in};
