//! Tables for people: aligned, without frames. At a terminal, columns wrap between words to fit; if it is
//! too narrow, each row is a block of lines. Elsewhere a row is a line, whose last column is never cut.

use std::fmt;

use comfy_table::{
    Attribute, Cell as TableCell, Color, ColumnConstraint, ContentArrangement, Table as Grid, Width, presets,
};
use ralph_shared::terminal::{Paint, Tone, tame};
use unicode_width::UnicodeWidthStr as _;

use crate::terminal::color::{self, tone_of};

/// Columns between two cells.
const GAP: u16 = 2;
/// Outside of a terminal, cells of all columns but the last are cut at this width.
const MAX_WIDTH: usize = 60;
/// Longer words may be broken.
const WORD: usize = 24;

/// A table, or a text if it has no rows.
#[derive(Debug)]
pub struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    empty: &'static str,
    paint: Paint,
    /// Columns of the terminal; `None` elsewhere.
    width: Option<u16>,
}

#[derive(Debug)]
struct Cell {
    text: String,
    tone: Tone,
}

impl Table {
    /// A table with these columns; `empty` is its text without rows.
    pub fn new(heads: impl IntoIterator<Item = &'static str>, empty: &'static str) -> Self {
        Self {
            heads: heads.into_iter().collect(),
            rows: Vec::new(),
            empty,
            paint: Paint::stdout(),
            width: color::width(),
        }
    }

    /// Adds a row; cells of columns named STATUS or OUTCOME are coloured.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = self.heads.iter().zip(cells).map(|(head, text)| Cell {
            tone: match *head {
                "STATUS" | "OUTCOME" => tone_of(&text),
                _ => Tone::Plain,
            },
            text: tame(&text).replace(['\n', '\t'], " "),
        });
        self.rows.push(cells.collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return writeln!(f, "{}", self.empty);
        }
        let Some(width) = self.width else {
            return writeln!(f, "{}", self.grid(MAX_WIDTH).trim_fmt());
        };
        let last = self.heads.len().saturating_sub(1);
        let least: Vec<u16> = (0..self.heads.len()).map(|at| self.least(at)).collect();
        let gaps = u16::try_from(last).unwrap_or(u16::MAX).saturating_mul(GAP);
        if least.iter().fold(gaps, |sum, width| sum.saturating_add(*width)) > width {
            return self.records(f, width);
        }
        let mut grid = self.grid(usize::MAX);
        grid.set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
        for (column, least) in grid.column_iter_mut().zip(least) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(
                least + column.padding_width(),
            )));
        }
        writeln!(f, "{}", grid.trim_fmt())
    }
}

impl Table {
    /// All cells without frames; cells of all columns but the last are cut at `most` columns.
    fn grid(&self, most: usize) -> Grid {
        let last = self.heads.len().saturating_sub(1);
        let cut = |at: usize, text: &str| {
            if at < last {
                clip(text, most)
            } else {
                text.to_owned()
            }
        };
        let mut grid = self.bare();
        grid.set_header(self.heads.iter().map(|head| head_of(head)));
        for row in &self.rows {
            let cells = row.iter().enumerate();
            grid.add_row(cells.map(|(at, cell)| toned(&cut(at, &cell.text), cell.tone)));
        }
        for (at, column) in grid.column_iter_mut().enumerate() {
            column.set_padding((0, if at < last { GAP } else { 0 }));
        }
        grid
    }

    fn bare(&self) -> Grid {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).force_no_tty();
        if self.paint.is_on() {
            grid.enforce_styling();
        }
        grid
    }

    /// The least width of a column, which keeps all but very long words whole.
    fn least(&self, at: usize) -> u16 {
        let cells = self.rows.iter().map(|row| row[at].text.as_str());
        let words = cells
            .flat_map(str::split_whitespace)
            .map(|word| word.width().min(WORD));
        let least = words.max().unwrap_or(0).max(self.heads[at].width());
        u16::try_from(least).unwrap_or(u16::MAX)
    }

    /// Each row as a block, for a terminal that is too narrow for the columns.
    fn records(&self, f: &mut fmt::Formatter<'_>, width: u16) -> fmt::Result {
        for (n, row) in self.rows.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            let mut grid = self.bare();
            let filled = self
                .heads
                .iter()
                .zip(row)
                .filter(|(_, cell)| !cell.text.is_empty());
            for (head, cell) in filled {
                grid.add_row([head_of(head), toned(&cell.text, cell.tone)]);
            }
            grid.set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width);
            for (at, column) in grid.column_iter_mut().enumerate() {
                column.set_padding((0, if at == 0 { GAP } else { 0 }));
            }
            writeln!(f, "{}", grid.trim_fmt())?;
        }
        Ok(())
    }
}

fn head_of(head: &str) -> TableCell {
    toned(head, Tone::Dim)
}

fn toned(text: &str, tone: Tone) -> TableCell {
    let cell = TableCell::new(text);
    match tone {
        Tone::Plain => cell,
        Tone::Bright => cell.add_attribute(Attribute::Bold),
        Tone::Dim => cell.add_attribute(Attribute::Dim),
        Tone::Good => cell.fg(Color::DarkGreen),
        Tone::Bad => cell.fg(Color::DarkRed),
        Tone::Warn => cell.fg(Color::DarkYellow),
        Tone::Active => cell.fg(Color::DarkCyan),
    }
}

/// Wraps long lines between words if standard output is a terminal.
pub fn folded(text: &str) -> String {
    match color::width() {
        Some(width) => fold(text, width),
        None => text.to_owned(),
    }
}

fn fold(text: &str, width: u16) -> String {
    let lines = text.lines().map(|line| {
        if line.width() <= usize::from(width) || line.contains('\x1b') {
            return format!("{line}\n");
        }
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).force_no_tty().set_width(width);
        grid.set_content_arrangement(ContentArrangement::Dynamic)
            .add_row([line]);
        for column in grid.column_iter_mut() {
            column.set_padding((0, 0));
        }
        format!("{}\n", grid.trim_fmt())
    });
    lines.collect()
}

/// Cuts a text to `width` columns, with `…` at the end if shortened.
pub fn clip(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        let mut longer = cut.clone();
        longer.push(c);
        if longer.width() + 1 > width {
            break;
        }
        cut = longer;
    }
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_by_width_and_the_last_is_never_cut() {
        let mut table = Table::new(["ID", "STATUS", "TITLE"], "nothing");
        assert_eq!(table.to_string(), "nothing\n");
        table.row(["t-1", "done", "日本"].map(str::to_owned));
        table.row(["日本語", "pending", &"x".repeat(100)].map(str::to_owned));
        table.row(["t-3", "", "line\n\x1b[31mred"].map(str::to_owned));
        let expected = format!(
            "ID      STATUS   TITLE\nt-1     done     日本\n日本語  pending  {}\nt-3              line red\n",
            "x".repeat(100)
        );
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn at_a_terminal_a_table_fits_and_keeps_words_whole() {
        let mut table = Table::new(["TASK", "STATUS", "TITLE"], "nothing");
        table.row(
            [
                "greeting/parse",
                "needs_review",
                "Read the language of the greeting",
            ]
            .map(str::to_owned),
        );
        table.width = Some(50);
        let expected = "TASK            STATUS        TITLE
greeting/parse  needs_review  Read the language of
                              the greeting
";
        assert_eq!(table.to_string(), expected);
        table.width = Some(30);
        let expected = "TASK    greeting/parse
STATUS  needs_review
TITLE   Read the language of
        the greeting
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn a_long_line_is_wrapped_between_words() {
        let text = "short\n2 tasks wait: no worker of pool gpu is there\n";
        assert_eq!(
            fold(text, 20),
            "short\n2 tasks wait: no\nworker of pool gpu\nis there\n"
        );
        assert_eq!(fold(text, 80), text);
    }

    #[test]
    fn a_clipped_text_fits_its_width() {
        for (text, width, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
        ] {
            assert_eq!(clip(text, width), expected);
        }
    }
}
