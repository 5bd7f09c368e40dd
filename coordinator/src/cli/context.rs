//! `context`: what an agent was told.

use std::process::ExitCode;

use clap::Args;

use super::args::Globals;
use super::client::{Client, escape};
use super::output::{self, Format};
use super::paint::tame;
use crate::api::body::PromptSent;
use crate::prompt::Prompt;

/// Print the prompt that an agent was sent for a task
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph-coordinator context t-9f2c
  ralph-coordinator context t-9f2c --attempt 1 --output json")]
pub struct ContextArgs {
    /// Id of the task, or its beginning
    task: String,
    /// Which attempt; the last session when it isn't given
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
}

/// Prints it.
pub async fn run(globals: &Globals, args: ContextArgs) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    let query = args.attempt.map(|n| format!("?attempt={n}")).unwrap_or_default();
    let prompt: PromptSent = client
        .get(&format!("/tasks/{}/prompt{query}", escape(&args.task)))
        .await?;
    match globals.output {
        Format::Json => output::json(&prompt)?,
        Format::Table | Format::Wide => {
            output::text(&tame(&format!("{}\n", Prompt::join(&prompt.frame, &prompt.body))))?
        }
    }
    Ok(ExitCode::SUCCESS)
}
