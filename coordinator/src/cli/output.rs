//! Results on standard output: JSON for programs, tables for people.

use std::io::{self, Write as _};

use serde::Serialize;

use super::table::Table;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For people with room: more columns
    Wide,
    /// For programs, as the API has it
    Json,
}

/// Prints `value`: as it is, or as the table that `table` makes of it; `true` asks for more columns.
///
/// # Errors
/// When standard output can't be written.
pub fn print(
    format: Format,
    value: &impl Serialize,
    table: impl FnOnce(bool) -> Table,
) -> anyhow::Result<()> {
    match format {
        Format::Json => json(value),
        Format::Table => text(&table(false).to_string()),
        Format::Wide => text(&table(true).to_string()),
    }
}

/// Prints `value` as indented JSON.
///
/// # Errors
/// When standard output can't be written.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Prints `value` as one line of JSON.
///
/// # Errors
/// When standard output can't be written.
pub fn json_line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Prints text that ends with a line end, or nothing.
///
/// # Errors
/// When standard output can't be written.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
