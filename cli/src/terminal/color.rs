//! Symbols and tones of states, and the terminal's size.

use std::io::IsTerminal;

use ralph_shared::terminal::{Tone, is_dumb};

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
