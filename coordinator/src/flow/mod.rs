//! The way of a task, a step a module, in the order in which a task meets them (DESIGN 2):
//!
//! | step | what it does |
//! | --- | --- |
//! | [`submit`] | a validated graph becomes rows, in one transaction |
//! | [`crate::flow::submit::agent_graph`] | what sessions send becomes tasks as well |
//! | [`crate::flow::submit::schedule`], [`crate::flow::submit::hook`], [`crate::flow::submit::copy`] | features begin by themselves, at their times or when others ask |
//! | [`crate::flow::submit::add_task`] | one more task for a feature that stands |
//! | [`crate::flow::claim::tickets`] | what became ready gets tickets, topped up by one issuer |
//! | [`crate::flow::workers::hello`] | a worker's incarnation takes its name |
//! | [`claim`], `crate::flow::claim::dispatches`, `crate::flow::claim::matching`, `crate::flow::claim::selection` | free slots get the best ready tasks, dispatches and leases |
//! | [`crate::flow::claim::path_holds`] | tasks that change the same are kept apart, where the feature asks for it |
//! | [`crate::flow::assignment::context`] | the assignment and its prompt |
//! | [`crate::flow::memory::context`] | what is remembered at this moment |
//! | `crate::flow::memory::questions`, [`crate::flow::memory::recall`], [`crate::flow::memory::select`] | the memory is asked what helps, and what of it is shown |
//! | [`crate::flow::memory::embedding`], [`crate::flow::memory::embed_entries`], [`crate::flow::memory::similarity`] | an outside model helps with that, where one is configured |
//! | [`crate::flow::assignment::preview`] | what an agent would be told now |
//! | [`crate::flow::workers::heartbeat`] | leases are renewed, settlements and orders told |
//! | [`crate::flow::apply::graph_check`] | a task graph that can't be used goes back to its agent once |
//! | [`crate::flow::memory::repo_scan`] | the memory follows the files at the head that a session starts from |
//! | [`apply`] | reports change tasks, a batch a transaction |
//! | [`cascade`] | what a change of a task does to others |
//! | [`crate::flow::memory::capture`] | what a report leaves for later iterations |
//! | [`integrate`] | turns, decisions, landings |
//! | [`crate::flow::integrate::operations`] | what people and a feature's end ask of branches: update, revert, merge |
//! | `crate::flow::integrate::base_gate` | the gate is tried on the base before anything lands |
//! | [`crate::flow::workers::rescue`] | leases that ended give their tasks back |
//! | [`crate::flow::workers::health`] | workers on which everything fails are drained |
//! | [`finish`] | a run's end |
//! | [`crate::flow::finish::limits`] | limits beside a run's: what they hold, end and tell |
//! | [`crate::flow::maintenance::recount`] | counters that are wrong are put right |
//! | [`crate::flow::maintenance::retention`] | refs of attempts go when their time is over |
//! | [`control`] | what people do to features and tasks |
//! | [`crate::flow::memory::upkeep`], [`crate::flow::memory::library`] | the memory is kept in order, and what people do with it |
//! | [`crate::flow::maintenance::expired`] | what sessions left beside their work goes once it is old |
//! | [`crate::flow::memory::lifecycle`], [`crate::flow::memory::distill`] | it stays within its bounds, and what says the same is merged by sessions |
//! | [`crate::flow::control::approve`], [`edit`] | what people let pass, and what they change of what stands |
//! | [`crate::flow::edit::dependencies`], [`crate::flow::edit::remove`] | edges and tasks of a feature that stands, changed and deleted |
//! | [`crate::flow::edit::cycle`] | what an edge would close, told to people |
//! | [`crate::flow::maintenance::transcripts`] | what a session showed, wherever it stands by now |
//!
//! Each step reads facts, asks [`crate::domain`], writes the result, commits, and only then tells others ([`Signals`]).
//! Whatever changes a feature's graph or states locks the feature's row first, several by id, then tasks by id, then
//! dispatches by id; claims and heartbeats lock task and dispatch rows only.

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
pub use crate::flow::assignment::prompt_log::Sent;
pub use crate::flow::maintenance::expired::KeptDays;
pub use settings::{Notify, Settings};
