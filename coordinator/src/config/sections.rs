//! `[memory.sections]` of `.ralph.toml`: what each section of a prompt that holds memory may take (SPEC 6.2).

use serde::Deserialize;

use crate::prompt::Budgets;

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
    pub(super) fn set(&self, budgets: &mut Budgets) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::config::Config;
    use crate::prompt::{Budgets, Section};

    #[test]
    fn a_section_takes_what_is_given_and_all_of_them_their_sum() {
        let budgets = |text: &str| -> Budgets {
            let (config, unknown) = Config::parse(text).unwrap();
            assert_eq!(unknown, Vec::<String>::new());
            config.settings().unwrap().budgets
        };
        assert_eq!(budgets(""), Budgets::default());
        let sections = "[memory.sections]\nprevious_attempts = 6000\njournal = 0\n";
        let given = budgets(sections);
        assert_eq!(given.total, 28_000 + 3_000 - 12_000);
        assert_eq!(given.allow(Section::PreviousAttempts, given.total), Some(6_000));
        assert_eq!(given.allow(Section::Journal, given.total), None);
        assert_eq!(
            budgets(&format!("[memory]\nbudget = 5000\n{sections}")).total,
            5_000
        );
    }
}
