//! `schema`: JSON Schemas of input and output.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use ralph_domain::graph::file;

use super::documents;
use crate::terminal::output;

/// Print the JSON Schema of command output, or of a task file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph schema output
  ralph schema tasks > task-graph.schema.json")]
pub struct SchemaArgs {
    /// Subject of the schema
    #[arg(value_enum, value_name = "WHAT")]
    what: What,
}

/// Something that has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Output of `--output json`
    Output,
    /// A file of tasks, as `--tasks` reads it
    Tasks,
}

pub fn run(args: SchemaArgs) -> anyhow::Result<ExitCode> {
    let schema = match args.what {
        What::Output => documents::schema(),
        What::Tasks => serde_json::to_value(file::schema())?,
    };
    output::text(&format!("{schema:#}\n"))?;
    Ok(ExitCode::SUCCESS)
}
