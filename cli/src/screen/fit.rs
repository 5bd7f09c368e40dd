//! Fits lines to a narrow terminal: drops the least informative parts first, not the last ones.

use ralph_api::view::FeatureView;
use ralph_shared::terminal::Tone;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::cost::format;
use crate::terminal::condition;
use crate::terminal::duration::show_ms;

/// Columns of a feature's progress bar: normal, and on a narrow screen.
const BAR: usize = 20;
const SHORT_BAR: usize = 10;
/// Columns of a feature's name: normal, and on a narrow screen.
const NAME: usize = 20;
const SHORT_NAME: usize = 12;

/// What to drop from the keys line on a narrow screen: first the words of these two keys, then keys, the
/// best known or least useful first. `q` stays.
const WORDS_GO: [&str; 2] = ["↑↓", "Tab"];
const KEYS_GO: [&str; 13] = ["↑↓", "Tab", "/", "p", "s", "d", "x", "r", "i", "?", "l", "R", "a"];

/// The keys line, in at most `columns` columns.
pub fn keys(shown: &[(&'static str, &'static str)], columns: usize) -> String {
    let mut shown = shown.to_vec();
    let steps = WORDS_GO.map(|key| (key, true)).into_iter();
    for (key, keep_key) in steps.chain(KEYS_GO.map(|key| (key, false))) {
        if Span::raw(line_of(&shown)).width() <= columns {
            break;
        }
        match shown.iter().position(|(shown, _)| *shown == key) {
            Some(at) if keep_key => shown[at].1 = "",
            Some(at) => {
                shown.remove(at);
            }
            None => {}
        }
    }
    line_of(&shown)
}

fn line_of(keys: &[(&str, &str)]) -> String {
    let keys: Vec<String> = keys
        .iter()
        .map(|(key, does)| format!("{key} {does}").trim_end().to_owned())
        .collect();
    keys.join("  ")
}

/// What a feature's line omits on a narrow screen. Each value also omits the parts of all values before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Without {
    Nothing,
    Rate,
    HalfOfBar,
    Time,
    Bar,
    EndOfName,
}

impl Without {
    const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Rate,
        Self::HalfOfBar,
        Self::Time,
        Self::Bar,
        Self::EndOfName,
    ];
}

/// A feature's line of at most `columns` columns; counts and cost are never dropped.
pub fn feature_line(feature: &FeatureView, columns: usize, style: &impl Fn(Tone) -> Style) -> Line<'static> {
    let mut line = Line::default();
    for without in Without::ALL {
        line = Line::from(parts(feature, without, style));
        if line.width() <= columns {
            break;
        }
    }
    line
}

fn parts(feature: &FeatureView, without: Without, style: &impl Fn(Tone) -> Style) -> Vec<Span<'static>> {
    let tasks = &feature.tasks;
    let columns = match without {
        Without::Nothing | Without::Rate => BAR,
        Without::HalfOfBar | Without::Time => SHORT_BAR,
        Without::Bar | Without::EndOfName => 0,
    };
    let filled = tasks.resolved() * i64::try_from(columns).unwrap_or(0) / tasks.total.max(1);
    let filled = usize::try_from(filled).unwrap_or(0);
    let bar: String = (0..columns)
        .map(|at| if at < filled { '█' } else { '░' })
        .collect();
    let name = if without == Without::EndOfName {
        SHORT_NAME
    } else {
        NAME
    };
    let status = condition::words(&feature.condition);
    let mut spans = vec![
        Span::raw(format!("{:name$.name$} ", feature.name)),
        Span::styled(format!("{status:9} "), style(condition::tone(&feature.condition))),
    ];
    if columns > 0 {
        spans.push(Span::styled(bar, style(Tone::Good)));
        spans.push(Span::raw(" "));
    }
    spans.push(Span::raw(format!(
        "{}/{}  {} running",
        tasks.resolved(),
        tasks.total,
        tasks.in_progress
    )));
    if tasks.failed > 0 {
        spans.push(Span::styled(
            format!("  {} failed", tasks.failed),
            style(Tone::Bad),
        ));
    }
    if let Some(run) = &feature.run {
        if without < Without::Rate {
            spans.push(Span::raw(format!("  {}", rate(tasks.resolved(), run.elapsed_ms))));
        }
        spans.push(Span::raw(format!("  {}", format::of_run(run))));
        if without < Without::Time {
            spans.push(Span::raw(format!("  {}", show_ms(run.elapsed_ms))));
        }
    }
    spans
}

/// Tasks per minute, in words.
fn rate(resolved: i64, elapsed_ms: i64) -> String {
    #[allow(clippy::cast_precision_loss)]
    let rate = resolved as f64 * 60_000.0 / elapsed_ms.max(1_000) as f64;
    if rate >= 10.0 {
        format!("{rate:.0}/min")
    } else {
        format!("{rate:.1}/min")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::super::state::tests::example;
    use super::*;

    #[test]
    fn a_slow_rate_has_a_decimal_digit() {
        for (resolved, ms, expected) in [
            (0, 0, "0.0/min"),
            (1, 240_000, "0.2/min"),
            (100, 60_000, "100/min"),
        ] {
            assert_eq!(rate(resolved, ms), expected);
        }
    }

    #[test]
    fn the_best_known_keys_are_dropped_first() {
        let all = example().keys();
        for (columns, shown) in [
            (
                95,
                "↑↓ task  Tab feature  l log  d diff  i interrupt  s skip  p pause  / filter  ? help  q quit",
            ),
            (
                70,
                "l log  d diff  i interrupt  s skip  p pause  / filter  ? help  q quit",
            ),
            (30, "l log  ? help  q quit"),
            (1, "q quit"),
        ] {
            assert_eq!(keys(&all, columns), shown, "{columns}");
        }
    }

    /// A feature with tasks in many states, and a run of 90 minutes that costs 12.34 USD.
    fn busy() -> FeatureView {
        let system = example().system.unwrap();
        let mut feature = serde_json::to_value(&system.features[0]).unwrap();
        feature["condition"] = json!({"word": "running", "reason": "2 need you"});
        feature["name"] = json!("a-name-of-twenty-nine-letters");
        feature["tasks"] = json!({"total": 1234, "pending": 0, "blocked": 1, "in_progress": 12, "done": 617, "failed": 3,
                                  "cancelled": 0, "skipped": 0, "needs_review": 2});
        feature["run"] = json!({
            "id": "run-1", "feature": "f-1", "outcome": null, "reason": null, "model": null, "model_strategy": "fixed",
            "agent": null, "review": true,
            "limits": {"iterations": null, "time_ms": null, "cost_usd": null, "tokens": null, "session_ms": 1, "idle_ms": 1,
                       "output_bytes": 1, "backoff_ms": 1},
            "iterations": 1, "succeeded": 1, "input_tokens": 0, "output_tokens": 0, "cost_usd": 12.34,
            "started_at": "2026-01-01T00:00:00Z", "ended_at": null, "elapsed_ms": 5_400_000
        });
        serde_json::from_value(feature).unwrap()
    }

    #[test]
    fn counts_and_cost_are_never_dropped() {
        let feature = busy();
        let shown = |columns: usize| feature_line(&feature, columns, &|_| Style::new()).to_string();
        let counts = "617/1234  12 running  3 failed";
        let bar = |full: usize| format!("{}{}", "█".repeat(full), "░".repeat(full));
        for (columns, begins, ends) in [
            (200, bar(10), "  6.9/min  12.34 USD  1h30m"),
            (115, bar(10), "  12.34 USD  1h30m"),
            (103, bar(5), "  12.34 USD  1h30m"),
            (96, bar(5), "  12.34 USD"),
            (85, String::new(), "  12.34 USD"),
        ] {
            let bar = if begins.is_empty() {
                begins
            } else {
                format!("{begins} ")
            };
            let expected = format!("a-name-of-twenty-nin running: 2 need you {bar}{counts}{ends}");
            assert_eq!(shown(columns), expected, "{columns}");
        }
        let narrow = shown(78);
        assert_eq!(
            narrow,
            format!("a-name-of-tw running: 2 need you {counts}  12.34 USD")
        );
        assert!(Span::raw(narrow).width() <= 78);
    }
}
