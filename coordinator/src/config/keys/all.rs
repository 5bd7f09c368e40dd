use std::sync::LazyLock;

use super::{coordinator, program, run, worker};
use crate::config::key::Key;

/// Tables whose keys nobody here knows: other programs' or later releases'.
pub(in crate::config) const OPAQUE: [&str; 2] = ["telemetry", "sandbox"];

/// All of them, by who reads them.
pub static KEYS: LazyLock<Vec<&'static Key>> = LazyLock::new(|| {
    let groups = [run::KEYS, coordinator::KEYS, worker::KEYS, program::KEYS];
    groups.into_iter().flatten().collect()
});
