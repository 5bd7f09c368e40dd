//! Colours for people: only at a terminal and without `NO_COLOR` (SPEC 9.3).

use std::io::IsTerminal as _;

use ralph_shared::plain::plain;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint(bool);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Text of an agent.
    Bright,
    /// Less important.
    Dim,
    /// In order.
    Good,
    /// Somebody should know.
    Warn,
    /// A failure.
    Bad,
    /// In progress.
    Active,
}

impl Paint {
    pub fn stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self(wanted && std::io::stdout().is_terminal())
    }

    pub fn none() -> Self {
        Self(false)
    }

    pub fn apply(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Bright => "1",
            Tone::Dim => "2",
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
            Tone::Active => "36",
        };
        if self.0 && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Foreign text without sequences that could control a terminal.
pub fn tame(text: &str) -> String {
    plain(text).into_owned()
}
