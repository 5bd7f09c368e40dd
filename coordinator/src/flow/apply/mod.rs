//! Applies reports to tasks, in batches of one transaction each.
//!
//! A report is accepted while its dispatch is the task's current one, also after its lease ended. A later one
//! is stored as superseded, and only its usage counts. A batch that fails is retried one report at a time. A
//! report that fails alone is kept raw and ends its attempt as an error, so that it never stops the others.
//!
//! | module | content |
//! | --- | --- |
//! | `incoming` | a report, and the facts that are read before its transaction |
//! | `settle` | applies a batch in one transaction, and handles its failure |
//! | `batch` | judges each report and collects its changes |
//! | `session` | the same for the report of a session |
//! | `late` | handles reports of dispatches that are over |
//! | `moves` | applies a judgement to a task |
//! | `availability` | availability of agents |
//! | `gate` | results of the gate |
//! | `operate` | ends of branch changes without an agent, and their consequences |
//! | `origin` | checks the sender of a report |
//! | `write` | writes everything, in the order of locks and readers |
//! | `record` | the row of a finished dispatch |

mod availability;
mod batch;
mod gate;
pub mod graph_check;
mod incoming;
mod late;
mod moves;
mod operate;
mod origin;
mod record;
mod session;
mod settle;
mod write;

pub use incoming::{Incoming, ReportFate, prepare};
pub use origin::{Sender, may_report};
pub use settle::{apply, end_as_error};
