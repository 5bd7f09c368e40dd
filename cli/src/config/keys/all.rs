use std::sync::LazyLock;

use super::{coordinator, program, run, worker};
use crate::config::key::Key;

/// Tables that a file may have and that nothing reads, with what does instead.
pub(in crate::config) const WITHOUT_EFFECT: [(&str, &str); 1] = [(
    "sandbox",
    "`[workspace] sandbox` and its neighbours, on the worker's machine, set what confines agents",
)];

/// All of them, by who reads them.
pub static KEYS: LazyLock<Vec<&'static Key>> = LazyLock::new(|| {
    let groups = [run::KEYS, coordinator::KEYS, worker::KEYS, program::KEYS];
    groups.into_iter().flatten().collect()
});
