//! Texts, times and amounts as pages show them. Texts of people and agents lose terminal control characters,
//! text direction marks and invisible characters, and are cut: escaping alone would leave these in.

use maud::{Markup, html};
use ralph_shared::agents::prices::usd_text;
use ralph_shared::plain::{plain, visible};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use ralph_cli::terminal::local_time::relative;

/// Longest line. Characters.
const LINE: usize = 240;
/// Longest line within a text, since browsers need seconds to lay out longer ones. Characters.
const LONG_LINE: usize = 4_000;

/// The text on one line, cut at a bound.
pub fn line(text: &str) -> String {
    cut_line(text, LINE)
}

/// The text on one line of at most `most` characters.
pub fn cut_line(text: &str, most: usize) -> String {
    // Four bytes per character, and as many for characters that are removed.
    let text = head(text, most * 8);
    let clean = plain(text);
    let clean = visible(&clean);
    let words = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}

/// The beginning of a text in several lines, and the number of omitted bytes.
pub fn block(text: &str, most_bytes: usize) -> (String, usize) {
    let shown = head(text, most_bytes);
    let clean = plain(shown);
    let clean = visible(&clean);
    let mut out = String::with_capacity(clean.len());
    for (n, line) in clean.split('\n').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        match line.char_indices().nth(LONG_LINE) {
            Some((at, _)) => {
                out.push_str(&line[..at]);
                out.push_str(" … (a longer line)");
            }
            None => out.push_str(line),
        }
    }
    (out, text.len() - shown.len())
}

/// A preformatted text.
pub fn pre(text: &str, most_bytes: usize) -> Markup {
    let (shown, left) = block(text, most_bytes);
    html! {
        pre { (shown) }
        @if left > 0 { p.dim { "… and " (bytes(left)) " more" } }
    }
}

/// The beginning of a text of at most `most` bytes.
fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// A size with its unit.
pub fn bytes(n: usize) -> String {
    match n {
        0..1_000 => format!("{n} bytes"),
        1_000..1_000_000 => format!("{} kB", n / 1_000),
        _ => format!("{} MB", n / 1_000_000),
    }
}

/// An amount in US dollars, with `~` if some of it is estimated.
pub fn usd(amount: f64, estimated: bool) -> String {
    let about = if estimated { "~" } else { "" };
    format!("{about}${}", usd_text(amount, false))
}

/// A short form of a large number.
pub fn count(n: i64) -> String {
    #[allow(clippy::cast_precision_loss)]
    let exact = n as f64;
    match n {
        ..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{:.0}k", exact / 1e3),
        _ => format!("{:.1}M", exact / 1e6),
    }
}

/// `1 task`, `2 tasks`.
pub fn counted(n: i64, word: &str) -> String {
    match n {
        1 => format!("1 {word}"),
        n => format!("{n} {word}s"),
    }
}

/// The distance of a time from now; the tooltip shows the time in the browser's time zone.
pub fn ago(at: OffsetDateTime) -> Markup {
    let exact = at.format(&Rfc3339).unwrap_or_default();
    let distance =
        relative(OffsetDateTime::now_utc() - at).unwrap_or_else(|| exact[..10.min(exact.len())].to_owned());
    html! { time datetime=(exact) title=(exact) data-ago { (distance) } }
}

/// The time of a day.
pub fn clock(at: OffsetDateTime) -> Markup {
    let exact = at.format(&Rfc3339).unwrap_or_default();
    html! { time datetime=(exact) title=(exact) data-clock { (format!("{:02}:{:02}", at.hour(), at.minute())) } }
}

/// A state as a word with a sign, so that it does not depend on colour alone.
pub fn state(word: &str) -> Markup {
    html! { span class=(format!("state s-{word}")) { span.sign aria-hidden="true" { (sign(word)) } (word.replace('_', " ")) } }
}

pub fn sign(word: &str) -> &'static str {
    match word {
        "done" | "complete" | "passed" | "merged" | "ready_worker" => "✓",
        "running" | "in_progress" | "live" => "▶",
        "needs_review" | "approval" | "review" | "question" => "◆",
        "failed" | "failure" | "error" | "conflict" | "lost" | "no_sigil" | "door" => "✕",
        "blocked" | "limit" | "limit_reached" | "no_plan" => "■",
        "paused" | "stopped" | "interrupted" => "‖",
        "cancelled" | "skipped" | "void" | "away" | "superseded" => "–",
        _ => "○",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_text_is_bounded_and_has_no_deceptive_characters() {
        assert_eq!(line("a\u{1b}[31mred\u{202e}\u{200b}b\n  c\0"), "aredb c");
        assert_eq!(cut_line(&"ä".repeat(9), 4), "ääää…");
        let (shown, left) = block(&"x".repeat(1_000_000), 100_000);
        assert!(shown.starts_with("xxx") && shown.len() < 5_000 && left == 900_000);
        let (shown, left) = block("é", 1);
        assert_eq!((shown.as_str(), left), ("", 2));
        assert_eq!(block("a\r\n\tb", 100), ("a\n\tb".to_owned(), 0));
    }

    #[test]
    fn amounts_have_a_short_form() {
        for (amount, expected) in [
            (0.0, "$0.00"),
            (-0.0, "$0.00"),
            (0.004, "$0.0040"),
            (12.345, "$12.35"),
        ] {
            assert_eq!(usd(amount, false), expected);
        }
        assert_eq!(usd(1.0, true), "~$1.00");
        assert_eq!(count(12_345), "12k");
        assert_eq!(counted(1, "task"), "1 task");
    }
}
