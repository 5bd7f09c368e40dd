//! What tasks get whose submission leaves it out.

use serde::{Deserialize, Serialize};

/// What a task gets that doesn't say otherwise.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskDefaults {
    pub max_retries: i32,
    pub verify: bool,
    pub pool: String,
}

impl Default for TaskDefaults {
    /// SPEC 3.4, 8.
    fn default() -> Self {
        Self {
            max_retries: 3,
            verify: true,
            pool: "default".to_owned(),
        }
    }
}
