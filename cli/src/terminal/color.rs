//! Colours: only at a terminal and without `NO_COLOR` (SPEC 9.3).

use std::io::IsTerminal;

use ralph_shared::plain::plain;

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

/// The symbol of a task's status in trees and lists.
pub fn mark_of(status: &str) -> &'static str {
    match status {
        "done" => "✓",
        "failed" => "✗",
        "in_progress" => "▶",
        "needs_review" => "?",
        "skipped" | "cancelled" => "-",
        "blocked" => "…",
        _ => "·",
    }
}

/// Columns of the terminal; `None` if standard output is not a terminal.
pub fn width() -> Option<u16> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = ratatui::crossterm::terminal::size().ok()?;
    (columns > 0).then_some(columns)
}

/// Rings the bell at the end of a wait, if standard error is a terminal.
pub fn bell() {
    if std::io::stderr().is_terminal() && !is_dumb() {
        eprint!("\x07");
    }
}

fn allowed() -> bool {
    !is_dumb() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether the terminal can only show plain text.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// The tone of a status or an outcome, ignoring the reason after it.
pub fn tone_of(status: &str) -> Tone {
    let word = status.split(':').next().unwrap_or(status);
    match word {
        "done" | "complete" | "passed" | "merged" => Tone::Good,
        "failed" | "failure" | "error" | "away" => Tone::Bad,
        "needs_review" | "blocked" | "paused" | "ready" | "limit" | "stopped" | "limit_reached"
        | "interrupted" | "draining" | "conflict" => Tone::Warn,
        "running" | "in_progress" => Tone::Active,
        "cancelled" | "skipped" | "draft" => Tone::Dim,
        _ => Tone::Plain,
    }
}

/// Text from outside without terminal control characters.
pub fn tame(text: &str) -> String {
    plain(text).into_owned()
}
