//! `schema`: the forms of what is read and printed.

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
    /// Of what
    #[arg(value_enum, value_name = "WHAT")]
    what: What,
}

/// Something that has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// What `--output json` prints
    Output,
    /// A file of tasks, as `--tasks` reads it
    Tasks,
}

/// Prints it.
pub fn run(args: SchemaArgs) -> anyhow::Result<ExitCode> {
    let schema = match args.what {
        What::Output => documents::schema(),
        What::Tasks => serde_json::to_value(file::schema())?,
    };
    output::text(&format!("{schema:#}\n"))?;
    Ok(ExitCode::SUCCESS)
}
