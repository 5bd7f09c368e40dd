//! Default settings of tasks.

use serde::{Deserialize, Serialize};

/// Settings of a task whose submission omits them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskDefaults {
    pub max_retries: i32,
    pub verify: bool,
    pub pool: String,
}

impl Default for TaskDefaults {
    /// The defaults of SPEC 3.4 and 8.
    fn default() -> Self {
        Self {
            max_retries: 3,
            verify: true,
            pool: "default".to_owned(),
        }
    }
}
