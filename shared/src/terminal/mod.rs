//! Text for people at a terminal. Colours are used only at a terminal and without `NO_COLOR` (SPEC 9.3).

pub mod transcript;

use std::io::IsTerminal;

use crate::plain::plain;

/// Whether one of our outputs is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint(bool);

/// Role of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Bright,
    Dim,
    Good,
    Bad,
    Warn,
    Active,
}

impl Paint {
    pub fn stdout() -> Self {
        Self(std::io::stdout().is_terminal() && allowed())
    }

    pub fn stderr() -> Self {
        Self(std::io::stderr().is_terminal() && allowed())
    }

    /// For plain text.
    pub fn none() -> Self {
        Self(false)
    }

    pub fn is_on(self) -> bool {
        self.0
    }

    /// The text as a link, if the output is coloured (OSC 8).
    pub fn link(self, address: &str, text: &str) -> String {
        match self.0 {
            true => format!("\x1b]8;;{}\x1b\\{text}\x1b]8;;\x1b\\", tame(address)),
            false => text.to_owned(),
        }
    }

    pub fn apply(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Bright => "1",
            Tone::Dim => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Warn => "33",
            Tone::Active => "36",
        };
        if self.0 && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

fn allowed() -> bool {
    !is_dumb() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether the terminal can only show plain text.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Text from outside without terminal control characters.
pub fn tame(text: &str) -> String {
    plain(text).into_owned()
}

/// A number with the singular or the plural.
pub fn counted(n: impl TryInto<i64>, one: &str, several: &str) -> String {
    let n = n.try_into().unwrap_or(i64::MAX);
    let word = if n == 1 { one } else { several };
    format!("{n} {word}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_takes_the_singular() {
        assert_eq!(counted(1, "retry", "retries"), "1 retry");
        assert_eq!(counted(0_i32, "retry", "retries"), "0 retries");
        assert_eq!(counted(2_usize, "retry", "retries"), "2 retries");
    }
}
