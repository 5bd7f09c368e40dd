//! The way of a task, a step a module, in the order in which a task meets them (DESIGN 2):
//!
//! | step | what it does |
//! | --- | --- |
//! | [`submit`] | a validated graph becomes rows, in one transaction |
//! | [`agent_graph`] | what sessions send becomes tasks as well |
//! | [`schedule`], [`hook`], [`copy`] | features begin by themselves, at their times or when others ask |
//! | [`add`] | one more task for a feature that stands |
//! | [`ready`] | what became ready gets tickets, topped up by one issuer |
//! | [`hello`] | a worker's incarnation takes its name |
//! | [`claim`], `take`, `deal`, `slots` | free slots get the best ready tasks, dispatches and leases |
//! | [`hold`] | tasks that change the same are kept apart, where the feature asks for it |
//! | [`context`] | the assignment and its prompt |
//! | [`memory`] | what is remembered at this moment |
//! | `ask`, [`recall`], [`pick`] | the memory is asked what helps, and what of it is shown |
//! | [`meaning`], [`embed`], [`nearness`] | an outside model helps with that, where one is configured |
//! | [`preview`] | what an agent would be told now |
//! | [`heartbeat`] | leases are renewed, settlements and orders told |
//! | [`check`] | a task graph that can't be used goes back to its agent once |
//! | [`survey`] | the memory follows the files at the head that a session starts from |
//! | [`apply`] | reports change tasks, a batch a transaction |
//! | [`cascade`] | what a change of a task does to others |
//! | [`capture`] | what a report leaves for later iterations |
//! | [`integrate`] | turns, decisions, landings |
//! | [`operate`] | what people and a feature's end ask of branches: update, revert, merge |
//! | `gate` | the gate is tried on the base before anything lands |
//! | [`rescue`] | leases that ended give their tasks back |
//! | [`health`] | workers on which everything fails are drained |
//! | [`finish`] | a run's end |
//! | [`limits`] | limits beside a run's: what they hold, end and tell |
//! | [`recount`] | counters that are wrong are put right |
//! | [`retention`] | refs of attempts go when their time is over |
//! | [`steer`] | what people do to features and tasks |
//! | [`upkeep`], [`library`] | the memory is kept in order, and what people do with it |
//! | [`aged`] | what sessions left beside their work goes once it is old |
//! | [`lifecycle`], [`distill`] | it stays within its bounds, and what says the same is merged by sessions |
//! | [`approve`], [`edit`] | what people let pass, and what they change of what stands |
//! | [`link`], [`remove`] | edges and tasks of a feature that stands, changed and deleted |
//! | [`circle`] | what an edge would close, told to people |
//! | [`recorded`] | what a session showed, wherever it stands by now |
//!
//! Each step reads facts, asks [`crate::domain`], writes the result, commits, and only then tells others ([`Signals`]).
//! Whatever changes a feature's graph or states locks the feature's row first, several by id, then tasks by id, then
//! dispatches by id; claims and heartbeats lock task and dispatch rows only.

pub mod add;
pub mod aged;
pub mod agent_graph;
pub mod apply;
pub mod approve;
pub mod capture;
pub mod cascade;
pub mod check;
pub mod circle;
pub mod claim;
pub mod context;
pub mod copy;
pub mod distill;
pub mod edit;
pub mod embed;
pub mod finish;
pub mod health;
pub mod heartbeat;
pub mod hello;
pub mod hold;
pub mod hook;
pub mod integrate;
pub mod library;
pub mod lifecycle;
pub mod limits;
pub mod link;
pub mod meaning;
pub mod memory;
pub mod nearness;
pub mod operate;
pub mod pick;
pub mod preview;
pub mod ready;
pub mod recall;
pub mod recorded;
pub mod recount;
pub mod remove;
pub mod rescue;
pub mod resume;
pub mod retention;
pub mod steer;
pub mod submit;
pub mod survey;
mod take;
pub mod upkeep;

mod ask;
mod attempts;
mod deal;
mod gate;
pub mod given;
mod guard;
mod laid;
mod order;
pub mod schedule;
mod sent;
mod settings;
mod slots;
mod spent;
mod told;

pub use crate::bus::Signals;
pub use aged::KeptDays;
pub use sent::Sent;
pub use settings::{Notify, Settings};
