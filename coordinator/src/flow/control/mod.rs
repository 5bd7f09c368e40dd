//! What people do to features and tasks while they run (SPEC 2.4, 3.6, 7.4; DESIGN 2, commands on what runs).
//!
//! done, fail, cancel, skip and release move the fence: what runs is ended, and its report changes nothing any more.
//! Interrupt doesn't: the session ends in order and its report counts.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `command` | what can be done to a task, and where that leads |
//! | `task` | doing it |
//! | `retry` | what is tried again |
//! | `proposal` | what a build or a review asked for, when a person ends it |
//! | `subtasks` | whom a command to a task with parts is for |
//! | `chat` | what running sessions and the next ones are told |
//! | `feature` | what is done to a feature as a whole |

pub mod approve;
mod chat;
mod command;
mod feature;
mod proposal;
mod retry;
mod subtasks;
mod task;

pub use crate::flow::control::chat::{feedback, interrupt};
pub(super) use crate::flow::control::subtasks::refer;
pub use command::{By, CommandOutcome, TaskCommand};
pub use feature::{FeatureCommand, feature, feature_by};
pub use task::task;
pub(super) use task::{fence_off, task_in};
