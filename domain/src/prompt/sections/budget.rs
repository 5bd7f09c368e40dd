//! Counts the remaining characters of a section.

use crate::prompt::text::chars;

#[derive(Debug, Clone, Copy)]
pub(super) struct CharBudget(usize);

impl CharBudget {
    pub(super) fn new(chars: usize) -> Self {
        Self(chars)
    }

    pub(super) fn remaining(self) -> usize {
        self.0
    }

    /// Takes the room for `text` and a separator of `gap` characters, if there is enough.
    pub(super) fn take(&mut self, text: &str, gap: usize) -> bool {
        let needed = chars(text) + gap;
        let fits = needed <= self.0;
        if fits {
            self.0 -= needed;
        }
        fits
    }
}

/// A rendered section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::prompt) struct Written {
    /// From its heading on, without surrounding blank lines.
    pub text: String,
    /// The entries that it shows, as indices of the given ones.
    pub shown: Vec<usize>,
}
