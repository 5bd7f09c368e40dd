//! The state on the screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, List, ListItem, ListState, Paragraph};

use super::fit::{feature_line, keys};
use super::state::{State, Verb};
use crate::cli::paint::{Tone, mark_of, tame, tone_of};
use crate::store::view::TaskView;

/// Features that are shown at once.
const FEATURES: u16 = 6;
const LOG_KEYS: &str = "↑↓ PgUp PgDn Home End  q back";

/// Draws it, in colour if that is wanted.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, colour: bool) {
    let style = |tone: Tone| if colour { style_of(tone) } else { Style::new() };
    if let Some(below) = state.reading {
        return draw_log(frame, state, below, &style);
    }
    let count = state.system.as_ref().map_or(0, |system| system.features.len());
    let features = u16::try_from(count).unwrap_or(FEATURES).clamp(1, FEATURES) + 2;
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
                .filter(|w| w.status.as_str() == "ready")
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
    let block = Block::bordered().title(format!(" features — {workers} workers ready {waits}"));
    let room = usize::from(area.width.saturating_sub(2));
    let items = features
        .iter()
        .map(|feature| ListItem::new(feature_line(feature, room, style)));
    let list = List::new(items).block(block).highlight_style(chosen());
    let mut selection = ListState::default().with_selected((!features.is_empty()).then_some(state.feature));
    frame.render_stateful_widget(list, area, &mut selection);
}

/// The selected task's log, with so many lines left below.
fn draw_log(frame: &mut Frame<'_>, state: &mut State, below: usize, style: &impl Fn(Tone) -> Style) {
    let [middle, bottom] = Layout::vertical([Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
    state.page = usize::from(middle.height.saturating_sub(2));
    let end = state.log.len().saturating_sub(below);
    let first = end.saturating_sub(state.page);
    let title = state.selected().map_or_else(String::new, |task| {
        format!(
            " {} {} — {}–{end} of {} lines ",
            task.id,
            tame(&task.title),
            (first + 1).min(end),
            state.log.len()
        )
    });
    let lines: Vec<Line<'_>> = state.log[first..end]
        .iter()
        .map(|line| Line::raw(line.as_str()))
        .collect();
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(title)),
        middle,
    );
    frame.render_widget(Paragraph::new(Line::styled(LOG_KEYS, style(Tone::Dim))), bottom);
}

fn draw_tasks(frame: &mut Frame<'_>, area: Rect, state: &State, style: &impl Fn(Tone) -> Style) {
    let more = if state.has_more { ", and more" } else { "" };
    let block = Block::bordered().title(format!(" tasks — {}{more} ", state.tasks.len()));
    let items = state
        .tasks
        .iter()
        .zip(&state.depths)
        .map(|(task, depth)| ListItem::new(task_line(task, *depth, style)));
    let list = List::new(items).block(block).highlight_style(chosen());
    let mut selection = ListState::default().with_selected((!state.tasks.is_empty()).then_some(state.task));
    frame.render_stateful_widget(list, area, &mut selection);
}

fn task_line(task: &TaskView, depth: usize, style: &impl Fn(Tone) -> Style) -> Line<'static> {
    let status = task.status.as_str();
    let mark = mark_of(status);
    let mut spans = vec![
        Span::raw("  ".repeat(depth)),
        Span::styled(format!("{mark} "), style(tone_of(status))),
        Span::raw(tame(&task.title).replace('\n', " ")),
    ];
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
        format!(" {} {} ", task.id, task.status.as_str().replace('_', " "))
    });
    let mut lines: Vec<Line<'_>> = Vec::new();
    if let Some(reason) = state.selected().and_then(|task| task.reason.as_ref()) {
        lines.push(Line::styled(tame(reason).replace('\n', " "), style(Tone::Warn)));
    }
    let room = usize::from(area.height.saturating_sub(2)).saturating_sub(lines.len());
    let first = state.log.len().saturating_sub(room);
    lines.extend(state.log[first..].iter().map(|line| Line::raw(line.as_str())));
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), area);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &State, style: &impl Fn(Tone) -> Style) {
    let first = match &state.typing {
        Some((verb, text)) => {
            let how = if *verb == Verb::Reject {
                "Enter does it when a word is there: the next session is told it; Esc doesn't"
            } else {
                "Enter does it, Esc doesn't"
            };
            Line::styled(
                format!("{}: why? {text}▏ ({how})", verb.as_str()),
                style(Tone::Bright),
            )
        }
        None => Line::styled(tame(&state.message).replace('\n', " "), style(Tone::Warn)),
    };
    let keys = Line::styled(keys(usize::from(area.width)), style(Tone::Dim));
    frame.render_widget(Paragraph::new(vec![first, keys]), area);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::state::tests::example;
    use super::*;

    fn drawn(state: &mut State) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 14)).unwrap();
        terminal.draw(|frame| draw(frame, state, false)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_screen_with_work_going_on() {
        let mut state = example();
        state.typing = Some((Verb::Retry, "look at the tests".to_owned()));
        insta::assert_snapshot!(drawn(&mut state));
    }

    #[test]
    fn the_log_has_the_whole_screen() {
        let mut state = example();
        state.reading = Some(0);
        insta::assert_snapshot!(drawn(&mut state));
        assert_eq!(state.page, 11);
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
    fn any_size_can_be_drawn() {
        for (width, height) in [(1, 1), (3, 2), (20, 5), (300, 80)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &mut example(), true)).unwrap();
        }
    }
}
