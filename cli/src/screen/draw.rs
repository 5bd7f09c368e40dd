//! Draws the screen's state.

use ralph_api::view::{CarStatus, TaskView};
use ralph_shared::terminal::{Tone, tame};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, List, ListItem, ListState, Paragraph};

use super::fit::{feature_line, keys};
use super::log::{draw_bar, draw_diff, draw_end, draw_help, draw_log, one_line, wrapped};
use super::state::{State, Typing, Verb};
use crate::terminal::color::{mark_of, tone_of};
use crate::terminal::duration::show_ms;

/// The least rows of the feature list, and the divisor of the screen's height that gives the most.
const FEATURES: u16 = 3;
const PART: u16 = 3;

const NO_FEATURES: &str = "no features; `ralph submit feature NAME --tasks FILE` makes one";

/// Draws the state, in colour if `colour` is set.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, colour: bool) {
    let style = |tone: Tone| if colour { style_of(tone) } else { Style::new() };
    if state.help {
        return draw_help(frame, &style);
    }
    if let Some((lines, top)) = &state.diff {
        return draw_diff(frame, lines, *top, &style);
    }
    if let Some(below) = state.reading {
        return draw_log(frame, state, below, &style);
    }
    let count = state.system.as_ref().map_or(0, |system| system.features.len());
    let most = (frame.area().height / PART).max(FEATURES);
    let features = u16::try_from(count).unwrap_or(most).clamp(1, most) + 2;
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(features),
        Constraint::Min(3),
        Constraint::Length(2),
    ])
    .areas(frame.area());
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(middle);
    draw_features(frame, top, state, &style);
    draw_tasks(frame, left, state, &style);
    draw_tail(frame, right, state, &style);
    draw_foot(frame, bottom, state, &style);
}

fn style_of(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Bright => Style::new().add_modifier(Modifier::BOLD),
        Tone::Dim => Style::new().add_modifier(Modifier::DIM),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Bad => Style::new().fg(Color::Red),
        Tone::Warn => Style::new().fg(Color::Yellow),
        Tone::Active => Style::new().fg(Color::Cyan),
    }
}

fn chosen() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn draw_features(frame: &mut Frame<'_>, area: Rect, state: &State, style: &impl Fn(Tone) -> Style) {
    let (features, workers) = state.system.as_ref().map_or((&[][..], 0), |system| {
        (
            system.features.as_slice(),
            system
                .workers
                .iter()
                .filter(|w| w.status.into_str() == "ready")
                .count(),
        )
    });
    let waiting = state.system.as_ref().and_then(|system| system.waiting.first());
    let waits = waiting.map_or_else(String::new, |waiting| {
        format!(
            "— {} wait: {} ",
            waiting.tasks,
            tame(&waiting.why).replace('\n', " ")
        )
    });
    let needy = features
        .iter()
        .filter(|feature| feature.tasks.needs_review > 0)
        .count();
    let needy = match needy {
        0 => String::new(),
        n => format!("— {n} need you "),
    };
    let title = format!(
        " {} features {needy}— {workers} workers ready {waits}",
        features.len()
    );
    let block = Block::bordered().title(title);
    if features.is_empty() && state.system.is_some() {
        let hint = Line::styled(NO_FEATURES, style(Tone::Dim));
        frame.render_widget(wrapped(vec![hint]).block(block), area);
        return;
    }
    let room = usize::from(area.width.saturating_sub(2));
    let items = features
        .iter()
        .map(|feature| ListItem::new(feature_line(feature, room, style)));
    let list = List::new(items).block(block).highlight_style(chosen());
    let mut selection = ListState::default().with_selected((!features.is_empty()).then_some(state.feature));
    frame.render_stateful_widget(list, area, &mut selection);
    draw_bar(frame, area, features.len(), selection.offset());
}

fn draw_tasks(frame: &mut Frame<'_>, area: Rect, state: &State, style: &impl Fn(Tone) -> Style) {
    let more = if state.has_more { ", and more" } else { "" };
    let of = match state.filter.is_empty() {
        true => String::new(),
        false => format!(" of {} with `{}`", state.all.len(), tame(&state.filter)),
    };
    let train = state.train.as_ref().map_or_else(String::new, |train| {
        let expected = train
            .expected_ms
            .map_or_else(String::new, |ms| format!(", about {}", show_ms(ms)));
        format!("— {} to land{expected} ", train.length)
    });
    let title = format!(" tasks — {}{of}{more} {train}", state.tasks.len());
    let block = Block::bordered().title(title);
    let items = state
        .tasks
        .iter()
        .zip(&state.depths)
        .map(|(task, depth)| ListItem::new(task_line(task, *depth, state.car(task), style)));
    let list = List::new(items).block(block).highlight_style(chosen());
    let mut selection = ListState::default().with_selected((!state.tasks.is_empty()).then_some(state.task));
    frame.render_stateful_widget(list, area, &mut selection);
    draw_bar(frame, area, state.tasks.len(), selection.offset());
}

fn task_line(
    task: &TaskView,
    depth: usize,
    car: Option<(usize, CarStatus)>,
    style: &impl Fn(Tone) -> Style,
) -> Line<'static> {
    let status = task.status.into_str();
    let mark = mark_of(status);
    let mut spans = vec![
        Span::raw("  ".repeat(depth)),
        Span::styled(format!("{mark} "), style(tone_of(status))),
        Span::raw(tame(&task.title).replace('\n', " ")),
    ];
    if let Some((place, status)) = car {
        let tone = match status {
            CarStatus::Failed | CarStatus::Conflict => Tone::Warn,
            CarStatus::Passed => Tone::Good,
            CarStatus::Waiting | CarStatus::Checking | CarStatus::Landing => Tone::Dim,
        };
        let words = format!("  train {place}: {}", status.into_str());
        spans.push(Span::styled(words, style(tone)));
    }
    match &task.session {
        Some(session) => spans.push(Span::styled(
            format!("  {} #{} on {}", session.kind, task.attempt, session.worker),
            style(Tone::Active),
        )),
        None if task.attempt > 1 => {
            spans.push(Span::styled(format!("  #{}", task.attempt), style(Tone::Dim)))
        }
        None => {}
    }
    Line::from(spans)
}

fn draw_tail(frame: &mut Frame<'_>, area: Rect, state: &State, style: &impl Fn(Tone) -> Style) {
    let title = state.selected().map_or_else(String::new, |task| {
        format!(" {} {} ", task.id, task.status.into_str().replace('_', " "))
    });
    let block = Block::bordered().title(title);
    let mut inner = block.inner(area);
    frame.render_widget(block, area);
    if let Some(reason) = state.selected().and_then(|task| task.reason.as_ref()) {
        let reason = wrapped(vec![Line::styled(one_line(reason), style(Tone::Warn))]);
        let rows = u16::try_from(reason.line_count(inner.width.max(1))).unwrap_or(u16::MAX);
        let rows = rows.min(inner.height / 2 + inner.height % 2);
        frame.render_widget(
            reason,
            Rect {
                height: rows,
                ..inner
            },
        );
        (inner.y, inner.height) = (inner.y + rows, inner.height - rows);
    }
    let first = state.log.len().saturating_sub(usize::from(inner.height));
    let lines = state.log[first..].iter().map(|line| Line::raw(line.as_str()));
    draw_end(frame, inner, lines.collect(), Block::new());
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &State, style: &impl Fn(Tone) -> Style) {
    let width = usize::from(area.width);
    let typed = |before: &str, text: &str, after: &str| {
        Line::styled(typed(before, text, after, width), style(Tone::Bright))
    };
    let first = match &state.typing {
        Some((Typing::Reason(Verb::Reject), text)) => {
            let how = "  (Enter rejects once there is a reason, which the next session gets; Esc doesn't)";
            typed("reject: why? ", text, how)
        }
        Some((Typing::Reason(verb), text)) => typed(
            &format!("{}: why? ", verb.into_str()),
            text,
            " (Enter does it, Esc doesn't)",
        ),
        Some((Typing::Filter, text)) => typed("/", text, " (Enter keeps it, Esc shows all)"),
        None => Line::styled(one_line(&state.message), style(Tone::Warn)),
    };
    let keys = Line::styled(keys(&state.keys(), width), style(Tone::Dim));
    frame.render_widget(Paragraph::new(vec![first, keys]), area);
}

/// The typed text with the cursor in view; cuts the beginning of a long text.
fn typed(before: &str, text: &str, after: &str, width: usize) -> String {
    let room = width.saturating_sub(before.chars().count() + 1);
    let chars = text.chars().count();
    if chars + after.chars().count() <= room {
        return format!("{before}{text}▏{after}");
    }
    let end: String = text.chars().skip(chars.saturating_sub(room)).collect();
    format!("{before}{end}▏")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::state::tests::example;
    use super::*;
    use ralph_api::view::{FeatureView, TrainView};

    fn drawn(state: &mut State) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 14)).unwrap();
        terminal.draw(|frame| draw(frame, state, false)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_screen_with_work_going_on() {
        let mut state = example();
        state.typing = Some((Typing::Reason(Verb::Retry), "look at the tests".to_owned()));
        insta::assert_snapshot!(drawn(&mut state));
    }

    #[test]
    fn a_waiting_task_shows_its_place_in_the_train() {
        let mut state = example();
        let car = |task: &str, status: &str| {
            serde_json::json!({"task": task, "title": task, "attempt": 1, "status": status, "behind": 0,
                               "since": "2026-01-01T00:00:00Z"})
        };
        let train = serde_json::json!({"landing": "each", "length": 2, "cars": [car("t-4", "landing"), car("t-2", "checking")],
                                       "expected_ms": 60_000, "checks": 1, "wasted": 0});
        let train: TrainView = serde_json::from_value(train).unwrap();
        state.take_train("f-2", Some(train.clone()));
        assert!(
            !drawn(&mut state).contains("to land"),
            "the train of another feature is ignored"
        );
        state.take_train("f-1", Some(train));
        let shown = drawn(&mut state);
        for words in [
            "tasks — 4 — 2 to land, about 1m00s",
            "Title of t-4  train 1: landing",
            "Title of t-2  train 2: checking  work #1",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }

    #[test]
    fn the_log_has_the_whole_screen() {
        let mut state = example();
        state.reading = Some(0);
        insta::assert_snapshot!(drawn(&mut state));
        assert_eq!(state.page, 11);
    }

    #[test]
    fn long_lines_wrap_and_scroll_from_their_beginning_below_the_reason() {
        let mut state = example();
        let reason = format!("the gate failed: {}END", "words ".repeat(15));
        state.tasks[1].reason = Some(reason);
        state.log = vec![format!("{}LAST", "sentence ".repeat(200)), "after".to_owned()];
        assert!(drawn(&mut state).contains("END"), "beside the tasks");
        state.reading = Some(0);
        let shown = drawn(&mut state);
        assert!(
            shown.contains("END") && shown.contains("LAST") && shown.contains("after"),
            "{shown}"
        );
        assert_eq!(state.most_below, 1, "the first line alone fills the screen");
        state.log = (0..100).map(|n| format!("line {n}")).collect();
        drawn(&mut state);
        state.reading = Some(state.most_below);
        let shown = drawn(&mut state);
        assert!(shown.contains("line 0 ") && !shown.contains("line 99"), "{shown}");
    }

    #[test]
    fn the_feature_list_grows_with_the_screen_and_has_a_scroll_bar() {
        let mut state = example();
        let system = state.system.as_mut().unwrap();
        let one = system.features[1].clone();
        system.features = (0..40)
            .map(|n| FeatureView {
                name: format!("feature-{n}"),
                ..one.clone()
            })
            .collect();
        let rows = |state: &mut State, height: u16| {
            let mut terminal = Terminal::new(TestBackend::new(100, height)).unwrap();
            terminal.draw(|frame| draw(frame, state, false)).unwrap();
            let shown = terminal.backend().to_string();
            assert!(shown.contains("40 features") && shown.contains('█'), "{shown}");
            shown.matches("feature-").count()
        };
        assert_eq!((rows(&mut state, 24), rows(&mut state, 60)), (8, 20));
    }

    #[test]
    fn the_cursor_stays_visible_and_help_and_diff_are_drawn() {
        let mut state = example();
        let text = format!("{}END", "word ".repeat(60));
        state.typing = Some((Typing::Reason(Verb::Interrupt), text));
        assert!(drawn(&mut state).contains("END▏"));
        state.typing = None;
        state.help = true;
        assert!(drawn(&mut state).contains("run the feature"));
        state.help = false;
        state.take_diff("t-2", "diff --git a/x b/x\n+new\n-old");
        let shown = drawn(&mut state);
        assert!(shown.contains("+new") && shown.contains("-old"), "{shown}");
    }

    #[test]
    fn without_features_the_screen_suggests_a_submission() {
        let mut state = example();
        state.system.as_mut().unwrap().features.clear();
        assert!(drawn(&mut state).contains("submit feature NAME"));
    }

    #[test]
    fn an_empty_screen_says_what_is_wrong() {
        let mut state = State {
            message: "no coordinator answers".to_owned(),
            ..State::default()
        };
        insta::assert_snapshot!(drawn(&mut state));
    }

    #[test]
    fn drawing_works_at_any_size() {
        for (width, height) in [(1, 1), (3, 2), (20, 5), (300, 80)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &mut example(), true)).unwrap();
        }
    }
}
