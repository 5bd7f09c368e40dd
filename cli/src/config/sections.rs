//! `[memory.sections]` of `.ralph.toml`: what each section of a prompt that holds memory may take (SPEC 6.2).

use serde::Deserialize;

use ralph_domain::prompt::Budgets;

/// Unicode characters of each section, its heading included; 0 leaves it out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SectionsTable {
    /// What earlier attempts and failed neighbours left; 3000 when it isn't given.
    pub previous_attempts: Option<usize>,
    /// What the feature's sessions noted; 3000 when it isn't given.
    pub session_memory: Option<usize>,
    /// What helps to do such tasks; 1500 when it isn't given.
    pub learnings: Option<usize>,
    /// Facts about the project; 8000 when it isn't given.
    pub knowledge: Option<usize>,
    /// What happened lately and in similar work; 12000 when it isn't given.
    pub journal: Option<usize>,
    /// How the run goes; 500 when it isn't given.
    pub loop_status: Option<usize>,
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
