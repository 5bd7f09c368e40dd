//! How large a task graph may be.

use std::collections::BTreeSet;

/// Longest text that is read, in bytes: 100,000 tasks with 2 KiB of words each, and a reserve.
pub const MAX_TEXT_BYTES: usize = 256 * 1024 * 1024;
/// Most tasks that are read from one text, with any [`Limits`].
pub const MAX_TASKS: usize = 1_000_000;
/// Most entries of `after` lists that are read from one text, with any [`Limits`]: five a task at the
/// most tasks.
pub const MAX_EDGES: usize = 5 * MAX_TASKS;
/// Most entries of `paths` lists that are read from one text, with any [`Limits`]: five a task at the
/// most tasks.
pub const MAX_ALL_PATHS: usize = 5 * MAX_TASKS;
pub const MAX_KEY_CHARS: usize = 100;
pub const MAX_TITLE_CHARS: usize = 500;
pub const MAX_DESCRIPTION_CHARS: usize = 200_000;
/// Longest name of an agent or a model, in characters.
pub const MAX_NAME_CHARS: usize = 100;
/// Most retries that a task may ask for.
pub const MAX_RETRIES: u32 = 100;
/// Problems (and, separately, warnings) that are kept with their words; further ones are only counted.
pub const MAX_PROBLEMS: usize = 20;

/// Bounds of a graph, which depend on its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub tasks: usize,
    /// Entries of all `after` lists together.
    pub edges: usize,
    /// Levels of the tree: 1 means that no task has children.
    pub levels: u32,
    /// Children of one task, and tasks without a parent: the children of the task that is split.
    pub children: usize,
    /// The pools that exist; `None` accepts every well-formed name.
    pub pools: Option<BTreeSet<String>>,
    /// The agents that exist; `None` accepts every well-formed name.
    pub agents: Option<BTreeSet<String>>,
}

impl Limits {
    /// For a file that a person submits: ten times the supported 100,000 tasks, of any width (SPEC 2.6).
    pub fn file() -> Self {
        Self {
            tasks: MAX_TASKS,
            edges: MAX_EDGES,
            levels: 64,
            children: MAX_TASKS,
            pools: None,
            agents: None,
        }
    }

    /// For a graph that an agent wrote: at most 3 levels and 50 children a split (SPEC 2.6).
    pub fn agent() -> Self {
        Self {
            tasks: 1_000,
            edges: 10_000,
            levels: 3,
            children: 50,
            pools: None,
            agents: None,
        }
    }
}
