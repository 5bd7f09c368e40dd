//! Columns for people: aligned, without frames, the last one as long as it needs to be.

use std::fmt;

use unicode_width::UnicodeWidthStr as _;

use super::paint::{Paint, Tone, tame, tone_of};

/// Between two columns.
const GAP: &str = "  ";
/// A column other than the last is cut at this width.
const MAX_WIDTH: usize = 60;

/// A table, or its place when it has no rows.
#[derive(Debug)]
pub struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    empty: &'static str,
    paint: Paint,
}

#[derive(Debug)]
struct Cell {
    text: String,
    tone: Tone,
}

impl Table {
    /// A table with these columns, and what to say when it has no rows.
    pub fn new(heads: impl IntoIterator<Item = &'static str>, empty: &'static str) -> Self {
        Self {
            heads: heads.into_iter().collect(),
            rows: Vec::new(),
            empty,
            paint: Paint::stdout(),
        }
    }

    /// Adds a row; a column named STATUS or OUTCOME gets its colour.
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
        let widths: Vec<usize> = (0..self.heads.len())
            .map(|at| {
                let cells = self.rows.iter().map(|row| row[at].text.width());
                cells
                    .max()
                    .unwrap_or(0)
                    .min(MAX_WIDTH)
                    .max(self.heads[at].width())
            })
            .collect();
        let heads: Vec<(String, Tone)> = self
            .heads
            .iter()
            .map(|head| ((*head).to_owned(), Tone::Dim))
            .collect();
        self.line(f, &widths, &heads)?;
        for row in &self.rows {
            let cells: Vec<(String, Tone)> = row.iter().map(|cell| (cell.text.clone(), cell.tone)).collect();
            self.line(f, &widths, &cells)?;
        }
        Ok(())
    }
}

impl Table {
    fn line(&self, f: &mut fmt::Formatter<'_>, widths: &[usize], cells: &[(String, Tone)]) -> fmt::Result {
        let last = cells.iter().rposition(|(text, _)| !text.is_empty()).unwrap_or(0);
        for (at, (text, tone)) in cells.iter().enumerate().take(last + 1) {
            let text = if at + 1 == widths.len() {
                text.clone()
            } else {
                clip(text, widths[at])
            };
            f.write_str(&self.paint.apply(*tone, &text))?;
            if at < last {
                write!(
                    f,
                    "{:pad$}{GAP}",
                    "",
                    pad = widths[at].saturating_sub(text.width())
                )?;
            }
        }
        writeln!(f)
    }
}

/// At most `width` columns of a text, with `…` where it was cut.
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
    fn columns_are_aligned_by_width_and_the_last_is_whole() {
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
    fn a_clipped_text_keeps_to_its_width() {
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
