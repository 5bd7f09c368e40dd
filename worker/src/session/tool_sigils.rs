//! Sigils from a session's tools. They count as if its agent had written them.

use parking_lot::Mutex;

/// Largest size of the entries, and of the graph. Bytes.
pub const TOOL_SIGIL_BYTES: usize = 1024 * 1024;

/// Memory entries and a task graph.
#[derive(Debug, Default)]
pub struct ToolSigils(Mutex<Sigils>);

#[derive(Debug, Default)]
struct Sigils {
    entries: String,
    graph: String,
}

impl ToolSigils {
    /// Adds a sigil, if it fits.
    pub fn add(&self, sigil: &str) -> bool {
        let mut sigils = self.0.lock();
        let fits = sigils.entries.len() + sigil.len() < TOOL_SIGIL_BYTES;
        if fits {
            sigils.entries.push_str(sigil);
            sigils.entries.push('\n');
        }
        fits
    }

    pub fn propose(&self, graph: String) {
        self.0.lock().graph = graph;
    }

    /// All sigils, followed by the agent's text: a sigil that ends a session may have to come last.
    pub fn before(&self, text: &str) -> String {
        let sigils = self.0.lock();
        format!("{}{}{text}", sigils.entries, sigils.graph)
    }
}
