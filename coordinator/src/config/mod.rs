//! Makes the coordinator's settings from the configuration that `ralph-cli` reads.

mod memory;
mod settings;
mod telemetry;

pub use ralph_cli::config::*;
pub use settings::settings_of;
