//! `[memory.sections]` of `.ralph.toml`: what each section of a prompt that holds memory may take (SPEC 6.2).

use ralph_shared::config::toml;
use ralph_shared::config_table;
use serde::Deserialize;

use ralph_domain::prompt::Budgets;

config_table! {
    /// Unicode characters of each section, its heading included; 0 leaves it out.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
    #[serde(default)]
    ["memory.sections", Coordinator]
    pub struct SectionsTable {
        /// Characters of what earlier attempts and failed neighbours left
        previous_attempts: Option<usize> = toml("3000"),
        /// Characters of what the feature's sessions noted
        session_memory: Option<usize> = toml("3000"),
        /// Characters of what helps to do such tasks
        learnings: Option<usize> = toml("1500"),
        /// Characters of facts about the project
        knowledge: Option<usize> = toml("8000"),
        /// Characters of what happened lately and in similar work
        journal: Option<usize> = toml("12000"),
        /// Characters of how the run goes
        loop_status: Option<usize> = toml("500"),
    }
}

impl SectionsTable {
    /// Sets what is given, and what all sections may take together to their sum.
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
