//! Budgets of memory in a prompt, in characters (SPEC 6.2).

/// Memory sections, in the order of priority when space is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Section {
    /// Earlier attempts at this task, and failures of siblings.
    PreviousAttempts,
    /// Notes of this feature's sessions.
    SessionMemory,
    /// Advice for such tasks.
    Learnings,
    /// Facts about the project.
    Knowledge,
    /// Recent iterations, and similar earlier ones.
    Journal,
    /// The progress of the run.
    LoopStatus,
}

impl Section {
    /// All sections, most important first (SPEC 6.2).
    pub const BY_PRIORITY: [Self; 6] = [
        Self::PreviousAttempts,
        Self::SessionMemory,
        Self::Learnings,
        Self::Knowledge,
        Self::Journal,
        Self::LoopStatus,
    ];

    /// All sections, in the order of the prompt (SPEC 6.1).
    pub const BY_PLACE: [Self; 6] = [
        Self::PreviousAttempts,
        Self::SessionMemory,
        Self::Learnings,
        Self::LoopStatus,
        Self::Journal,
        Self::Knowledge,
    ];

    /// The words of its heading, for screens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreviousAttempts => "Previous Attempts",
            Self::SessionMemory => "Session Memory",
            Self::Learnings => "Learnings from Previous Iterations",
            Self::Knowledge => "Project Knowledge",
            Self::Journal => "Run Journal",
            Self::LoopStatus => "Loop Status",
        }
    }
}

/// The budget of one section. Unicode characters, its heading included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub max: usize,
    /// If less is left, the section is omitted.
    pub min: usize,
}

/// Budgets of memory and of each reference text in a prompt. Unicode characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budgets {
    pub previous_attempts: Share,
    pub session_memory: Share,
    pub learnings: Share,
    pub knowledge: Share,
    pub journal: Share,
    pub loop_status: Share,
    /// All sections together.
    pub total: usize,
    /// The shown part of each reference text: a specification, a plan, a description of a feature (SPEC 6.1).
    pub reference: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        let share = |max, min| Share { max, min };
        Self {
            previous_attempts: share(3_000, 500),
            session_memory: share(3_000, 300),
            learnings: share(1_500, 300),
            knowledge: share(8_000, 300),
            journal: share(12_000, 300),
            loop_status: share(500, 200),
            total: 3_000 + 3_000 + 1_500 + 8_000 + 12_000 + 500,
            reference: 30_000,
        }
    }
}

impl Budgets {
    /// The sum of all sections' maxima.
    pub fn sum(&self) -> usize {
        let max = |section: &Section| self.of(*section).max;
        Section::BY_PRIORITY.iter().map(max).sum()
    }

    pub fn of(&self, section: Section) -> Share {
        match section {
            Section::PreviousAttempts => self.previous_attempts,
            Section::SessionMemory => self.session_memory,
            Section::Learnings => self.learnings,
            Section::Knowledge => self.knowledge,
            Section::Journal => self.journal,
            Section::LoopStatus => self.loop_status,
        }
    }

    /// The budget of a section when `left` characters of the total are left; `None` when that is below its
    /// minimum.
    pub fn allow(&self, section: Section, left: usize) -> Option<usize> {
        let share = self.of(section);
        let allowed = share.max.min(left);
        (allowed >= share.min.min(share.max) && allowed > 0).then_some(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_gets_its_maximum_the_rest_or_nothing() {
        let budgets = Budgets::default();
        let check = |section, left, expected| {
            assert_eq!(budgets.allow(section, left), expected, "{section:?} {left}")
        };
        check(Section::PreviousAttempts, 28_000, Some(3_000));
        check(Section::PreviousAttempts, 500, Some(500));
        check(Section::PreviousAttempts, 499, None);
        check(Section::Learnings, 300, Some(300));
        check(Section::Learnings, 299, None);
        check(Section::LoopStatus, 200, Some(200));
        check(Section::LoopStatus, 199, None);
        let none = Budgets {
            journal: Share { max: 0, min: 300 },
            ..budgets
        };
        assert_eq!(none.allow(Section::Journal, 28_000), None);
    }
}
