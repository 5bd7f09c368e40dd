//! `[memory.sections]` of `.ralph.toml`: size of each section of a prompt that holds memory (SPEC 6.2).

use ralph_shared::config::toml;
use ralph_shared::config_table;
use serde::Deserialize;

use ralph_domain::prompt::Budgets;

config_table! {
    /// Unicode characters of each section, including its heading; 0 leaves it out.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
    #[serde(default)]
    ["memory.sections", Coordinator]
    pub struct SectionsTable {
        /// Characters about earlier attempts and failed neighbours
        previous_attempts: Option<usize> = toml("3000"),
        /// Characters of notes by the feature's sessions
        session_memory: Option<usize> = toml("3000"),
        /// Characters of learnings for tasks of this kind
        learnings: Option<usize> = toml("1500"),
        /// Characters of facts about the project
        knowledge: Option<usize> = toml("8000"),
        /// Characters about recent events and similar work
        journal: Option<usize> = toml("12000"),
        /// Characters about the state of the run
        loop_status: Option<usize> = toml("500"),
    }
}

impl SectionsTable {
    /// Sets the given budgets, and the total to the sum of all sections.
    pub fn set(&self, budgets: &mut Budgets) {
        for (share, given) in [
            (&mut budgets.previous_attempts, self.previous_attempts),
            (&mut budgets.session_memory, self.session_memory),
            (&mut budgets.learnings, self.learnings),
            (&mut budgets.knowledge, self.knowledge),
            (&mut budgets.journal, self.journal),
            (&mut budgets.loop_status, self.loop_status),
        ] {
            share.max = given.unwrap_or(share.max);
        }
        budgets.total = budgets.sum();
    }
}
