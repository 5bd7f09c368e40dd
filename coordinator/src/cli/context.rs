//! `context`: what an agent was told, or would be told now.

use std::process::ExitCode;

use clap::Args;

use super::client::{Client, escape};
use crate::api::body::{PromptNext, PromptSent};
use crate::cli::args::globals::Globals;
use crate::cli::terminal::color::tame;
use crate::cli::terminal::output::{self, Format};
use crate::cli::terminal::pager;
use crate::prompt::Prompt;

/// Print the prompt that an agent got for a task, or would get now
///
/// As JSON it comes with what became of each section and entry.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph-coordinator context t-9f2c
  ralph-coordinator context t-9f2c --attempt 1 --output json
  ralph-coordinator context t-9f2c --next --output json")]
pub struct ContextArgs {
    /// Id of the task, its beginning, or FEATURE/KEY
    task: String,
    /// Which attempt; the last session when it isn't given
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
    /// What the next attempt would be told now
    #[arg(long, conflicts_with = "attempt")]
    next: bool,
}

/// Prints it.
pub async fn run(globals: &Globals, args: ContextArgs) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    if args.next {
        let next: PromptNext = client
            .get(&format!("/tasks/{}/preview", escape(&args.task)))
            .await?;
        match globals.output {
            Format::Json => output::json(&next)?,
            Format::Table | Format::Wide => {
                show(globals, &next.frame, &next.body).await?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let query = args.attempt.map(|n| format!("?attempt={n}")).unwrap_or_default();
    let prompt: PromptSent = client
        .get(&format!("/tasks/{}/prompt{query}", escape(&args.task)))
        .await?;
    match globals.output {
        Format::Json => output::json(&prompt)?,
        Format::Table | Format::Wide => {
            show(globals, &prompt.frame, &prompt.body).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(globals: &Globals, frame: &str, body: &str) -> anyhow::Result<()> {
    pager::show(globals, &tame(&format!("{}\n", Prompt::join(frame, body)))).await
}
