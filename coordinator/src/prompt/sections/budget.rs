//! Counts what a section has left.

use crate::prompt::text::chars;

/// Characters that are left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room(usize);

impl Room {
    pub(super) fn new(chars: usize) -> Self {
        Self(chars)
    }

    pub(super) fn left(self) -> usize {
        self.0
    }

    /// Takes the room for `text` and a separator of `gap` characters, if it is there.
    pub(super) fn take(&mut self, text: &str, gap: usize) -> bool {
        let needed = chars(text) + gap;
        let fits = needed <= self.0;
        if fits {
            self.0 -= needed;
        }
        fits
    }
}

/// A section as it goes into the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::prompt) struct Written {
    /// From its heading on, without blank lines around.
    pub text: String,
    /// Which of the given entries it shows, as indices.
    pub shown: Vec<usize>,
}
