//! Sigils from the tools of a session. They count as if its agent had written them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most of either. Bytes.
pub const TOOL_SIGIL_BYTES: usize = 1024 * 1024;

/// Entries for the memory, and a task graph.
#[derive(Debug, Default)]
pub struct ToolSigils(Mutex<Sigils>);

#[derive(Debug, Default)]
struct Sigils {
    entries: String,
    graph: String,
}

impl ToolSigils {
    fn lock(&self) -> MutexGuard<'_, Sigils> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sigil, if it fits.
    pub fn add(&self, sigil: &str) -> bool {
        let mut left = self.lock();
        let fits = left.entries.len() + sigil.len() < TOOL_SIGIL_BYTES;
        if fits {
            left.entries.push_str(sigil);
            left.entries.push('\n');
        }
        fits
    }

    /// Takes a task graph in the place of an earlier one.
    pub fn propose(&self, graph: String) {
        self.lock().graph = graph;
    }

    /// All of it, before what the agent said itself: what ends a session may have to stand last.
    pub fn before(&self, said: &str) -> String {
        let left = self.lock();
        format!("{}{}{said}", left.entries, left.graph)
    }
}
