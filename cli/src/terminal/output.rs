//! Results on standard output: JSON for programs, tables for people.

use std::io::{self, Write as _};

use ralph_api::view::Page;
use ralph_shared::document;
use serde::Serialize;

use super::pager;
use crate::args::globals::Globals;
use crate::reference::document::Document;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For people, with more columns
    Wide,
    /// For programs, as in the API; see docs/output.md
    Json,
}

/// A document with the field that names its kind.
#[derive(Serialize)]
struct Titled<'a, T> {
    schema: String,
    #[serde(flatten)]
    document: &'a T,
}

impl<'a, T: Document> Titled<'a, T> {
    fn new(document: &'a T) -> Self {
        Self {
            schema: document::name(T::KIND),
            document,
        }
    }
}

/// Shows a document: as JSON, or as the table of `table`, which gets `true` for more columns.
pub async fn show<T: std::fmt::Display>(
    globals: &Globals,
    document: &impl Document,
    table: impl FnOnce(bool) -> T,
) -> anyhow::Result<()> {
    match globals.output {
        Format::Json => json(document),
        format => pager::show(globals, &table(format == Format::Wide).to_string()).await,
    }
}

/// Shows the first documents of a list, and notes whether there are more.
pub async fn list<I, T: std::fmt::Display>(
    globals: &Globals,
    page: &Page<I>,
    table: impl FnOnce(bool) -> T,
) -> anyhow::Result<()>
where
    Page<I>: Document,
{
    show(globals, page, table).await?;
    if page.next.is_some() && globals.output != Format::Json {
        eprintln!("there are more; show them with --limit");
    }
    Ok(())
}

/// Prints a command's result: the document, or text for people that ends with a line break.
pub fn answer(format: Format, document: &impl Document, words: &str) -> anyhow::Result<()> {
    match format {
        Format::Json => json(document),
        Format::Table | Format::Wide => text(words),
    }
}

/// Prints a document as indented JSON.
pub fn json(document: &impl Document) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &Titled::new(document)).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Prints a document as one line of JSON.
pub fn json_line(document: &impl Document) -> anyhow::Result<()> {
    record(&Titled::new(document))
}

/// Prints a line of JSON in a format that is not ours to version, without the kind.
pub fn record(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Prints text, which is empty or ends with a line break.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
