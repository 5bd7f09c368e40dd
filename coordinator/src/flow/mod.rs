//! The steps of a task through the coordinator, one folder each:
//!
//! | step | content |
//! | --- | --- |
//! | [`submit`] | stores a validated graph: features, further tasks, graphs of agents, schedules, hooks, copies |
//! | [`claim`] | gives ready tasks to free slots: tickets, selection, matching, dispatches and leases |
//! | [`assignment`] | builds a worker's assignment: instructions and prompt |
//! | [`memory`] | finds memory entries for a prompt, stores those of a report, keeps the memory in order |
//! | [`workers`] | serves workers: hello, heartbeat, usage, rescue of expired leases, drain of failing workers |
//! | [`apply`] | applies reports, one batch per transaction |
//! | [`integrate`] | decides turns and landings, and adds branch operations: update, revert, merge |
//! | [`cascade`] | updates dependents, parents and siblings of a changed task |
//! | [`finish`] | ends runs, holds them at limits, resumes them |
//! | [`control`] | executes commands of people: pause, stop, retry, approve, reject |
//! | [`edit`] | changes existing features, tasks and dependencies |
//! | [`maintenance`] | removes expired rows and refs, archives transcripts, repairs counters |
//!
//! Each step reads facts, asks [`crate::domain`], writes the result, commits, and then notifies others ([`Signals`]).
//! A step that changes a feature's graph or states locks the feature row first, then tasks by id, then dispatches by id.
//! Several features are locked in order of their ids. Claims and heartbeats lock task and dispatch rows only.

pub mod apply;
pub mod assignment;
pub mod cascade;
pub mod claim;
pub mod control;
pub mod edit;
pub mod finish;
pub mod integrate;
pub mod maintenance;
pub mod memory;
pub mod submit;
pub mod workers;

mod guard;
mod settings;

pub use crate::bus::Signals;
pub use crate::flow::assignment::prompt_log::SentPrompts;
pub use crate::flow::maintenance::expired::RetentionDays;
pub use settings::{Notify, Settings};
