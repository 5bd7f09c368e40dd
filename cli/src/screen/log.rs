//! Long texts on the screen: a task's log with the reason of its state, its diff, and the help. Lines are
//! wrapped.

use ralph_shared::terminal::{Tone, tame};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Scrollbar, ScrollbarOrientation, ScrollbarState, Table, Wrap};

use super::keys::HELP;
use super::state::State;

const LOG_KEYS: &str = "↑↓ PgUp PgDn Home End  Esc back";

/// Draws the selected task's log, with `below` lines below the screen.
pub fn draw_log(frame: &mut Frame<'_>, state: &mut State, below: usize, style: &impl Fn(Tone) -> Style) {
    let [middle, bottom] = Layout::vertical([Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
    let reason = state.selected().and_then(|task| task.reason.as_ref());
    let reason = reason.map(|reason| wrapped(vec![Line::styled(one_line(reason), style(Tone::Warn))]));
    let inner = middle.width.saturating_sub(2);
    let most = middle.height / 3;
    let above = reason
        .as_ref()
        .map_or(0, |reason| rows(reason, inner).min(usize::from(most)));
    let above = u16::try_from(above).unwrap_or(most);
    let body = Rect {
        y: middle.y + above,
        height: middle.height - above,
        ..middle
    };
    state.page = usize::from(body.height.saturating_sub(2));
    state.most_below = state.log.len() - filling(&state.log, inner, state.page);
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
    if let Some(reason) = reason {
        let top = Rect {
            x: middle.x + u16::from(middle.width > 1),
            width: inner,
            height: above,
            ..middle
        };
        frame.render_widget(reason, top);
    }
    let lines = state.log[first..end].iter().map(|line| Line::raw(line.as_str()));
    draw_end(frame, body, lines.collect(), Block::bordered().title(title));
    draw_bar(frame, body, state.log.len(), first);
    frame.render_widget(Paragraph::new(Line::styled(LOG_KEYS, style(Tone::Dim))), bottom);
}

/// Draws a task's diff from line `top` on.
pub fn draw_diff(frame: &mut Frame<'_>, lines: &[String], top: usize, style: &impl Fn(Tone) -> Style) {
    let [middle, bottom] = Layout::vertical([Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
    let shown = lines
        .iter()
        .skip(top)
        .take(usize::from(middle.height))
        .map(|line| {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                Some(b'@' | b'd') => Tone::Active,
                _ => Tone::Plain,
            };
            Line::styled(line.as_str(), style(tone))
        });
    let title = format!(" changes — from line {} of {} ", top + 1, lines.len());
    let text = wrapped(shown.collect()).block(Block::bordered().title(title));
    frame.render_widget(text, middle);
    draw_bar(frame, middle, lines.len(), top);
    frame.render_widget(Paragraph::new(Line::styled(LOG_KEYS, style(Tone::Dim))), bottom);
}

/// Draws the help: every key with its effect.
pub fn draw_help(frame: &mut Frame<'_>, style: &impl Fn(Tone) -> Style) {
    let rows = HELP.map(|(key, does)| {
        Row::new([
            Line::styled(key, style(Tone::Bright)),
            Line::styled(does, style(Tone::Plain)),
        ])
    });
    let widths = [Constraint::Length(16), Constraint::Min(10)];
    let table = Table::new(rows, widths).block(Block::bordered().title(" keys — any key goes back "));
    frame.render_widget(table, frame.area());
}

/// Draws the last rows of the lines that fit into the area.
pub fn draw_end(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>, block: Block<'_>) {
    let inner = block.inner(area);
    let text = wrapped(lines);
    let over = rows(&text, inner.width).saturating_sub(usize::from(inner.height));
    let text = text.scroll((u16::try_from(over).unwrap_or(u16::MAX), 0));
    frame.render_widget(block, area);
    frame.render_widget(text, inner);
}

/// A scroll bar at the right edge, if not all lines fit.
pub fn draw_bar(frame: &mut Frame<'_>, area: Rect, lines: usize, first: usize) {
    let room = usize::from(area.height.saturating_sub(2));
    if lines <= room || area.width < 2 {
        return;
    }
    let mut at = ScrollbarState::new(lines - room)
        .position(first)
        .viewport_content_length(room);
    let bar = Scrollbar::new(ScrollbarOrientation::VerticalRight)
        .begin_symbol(None)
        .end_symbol(None);
    frame.render_stateful_widget(bar, area, &mut at);
}

/// A text from outside on one line.
pub fn one_line(text: &str) -> String {
    tame(text).replace('\n', " ")
}

pub fn wrapped(lines: Vec<Line<'_>>) -> Paragraph<'_> {
    Paragraph::new(lines).wrap(Wrap { trim: false })
}

fn rows(text: &Paragraph<'_>, width: u16) -> usize {
    text.line_count(width.max(1))
}

/// Number of lines, from the first one on, that fill `room` rows.
fn filling(lines: &[String], width: u16, room: usize) -> usize {
    let mut filled = 0;
    let fits = lines.iter().take_while(|line| {
        filled += rows(&wrapped(vec![Line::raw(line.as_str())]), width);
        filled <= room
    });
    fits.count().max(1).min(lines.len())
}
