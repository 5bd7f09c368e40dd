//! Configuration (SPEC 8). Precedence: flag, `RALPH_*` variable, `.ralph.toml`, default.
//!
//! A key is a field of a table's struct, with its default and its description. The workers' tables are in
//! [`ralph_shared::config`]. [`KEYS`] lists all keys of all programs. [`Config`] is the part of the file
//! that the coordinator and the commands read. [`effective()`] returns the value of each key and its source.

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
