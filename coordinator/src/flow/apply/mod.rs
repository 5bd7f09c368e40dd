//! Reports change tasks: in batches, one transaction each (DESIGN 2).
//!
//! A report is accepted while its dispatch is the task's current one, also after its lease ended; what comes later is
//! stored as superseded, and only its usage counts. A batch that fails is tried one report at a time, and what fails alone
//! is kept raw and ends its attempt as an error: one poisoned report never stops the others.
//!
//! | module | what it does |
//! | --- | --- |
//! | `settle` | a batch in one transaction; what happens when that fails |
//! | `batch` | judges each report and notes what it changes |
//! | `late` | what is kept of a report whose dispatch is over |
//! | `moves` | what a judgement does to a task |
//! | `availability` | what they tell of agents' doors |
//! | `operate` | the ends of what changes branches without an agent, and what they lead to |
//! | `write` | writes everything, in the order that locks and readers need |
//! | `record` | the row that a dispatch leaves |

mod availability;
mod batch;
mod gate;
pub mod graph_check;
mod late;
mod moves;
mod operate;
mod origin;
mod record;
mod settle;
mod write;

pub use origin::{Sender, may_report};
pub use settle::{Fate, Incoming, apply, end_as_error, prepare};
