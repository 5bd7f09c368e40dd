//! What can be set, and what is set (SPEC 8): flag before `RALPH_*` variable before `.ralph.toml` before default.
//!
//! [`KEYS`] is the one list of all keys, whoever reads them; [`Config`] is what the coordinator and the commands read of the
//! file; [`effective()`] says what holds, and where each value comes from.

mod budgets;
mod effective;
mod file;
mod key;
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
pub use file::{
    Api, CeilingsTable, Config, Execution, Limits, Models, NotifyTable, Verify, VerifyStep, Workspace,
};
pub use key::{Key, Reader, Unset};
pub use keys::KEYS;
pub use memory::{EmbeddingsTable, Memory};
pub use read::{chosen, read_table};
pub use repositories::RepositoriesTable;
pub use retention::Retention;
pub use shares::Shares;
pub use telemetry::Telemetry;
pub use unknown::unread;
