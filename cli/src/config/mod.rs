//! What can be set, and what is set (SPEC 8): flag before `RALPH_*` variable before `.ralph.toml` before default.
//!
//! A key is a field of the table that it is read into, with its default and what it sets; workers' tables stand in
//! [`ralph_shared::config`]. [`KEYS`] lists all keys, whoever reads them; [`Config`] is what the coordinator and the commands read of
//! the file; [`effective()`] says what holds, and where each value comes from.

mod budgets;
mod effective;
mod file;
mod keys;
mod memory;
mod questions;
mod read;
mod repositories;
mod retention;
mod sections;
mod shares;
mod telemetry;
mod unknown;

pub use budgets::Budgets;
pub use effective::{Override, Setting, Source, effective, shown};
pub use file::{Api, CeilingsTable, Config, Execution, Limits, Models, NotifyTable, Verify, VerifyStep};
pub use keys::KEYS;
pub use memory::{EmbeddingsTable, Memory};
pub use ralph_shared::config::{Key, Reader, Unset, Workspace};
pub use read::{chosen, read_table};
pub use repositories::RepositoriesTable;
pub use retention::Retention;
pub use shares::Shares;
pub use telemetry::Telemetry;
pub use unknown::unread;
