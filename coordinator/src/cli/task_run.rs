//! `task run TASK`

use std::process::ExitCode;

use clap::Args;

use super::client::{Client, escape};
use super::feature::told;
use super::submit::RunFlags;
use super::wait::{self, Interrupts, WaitFlags};
use crate::api::body::Started;
use crate::cli::submit::agents;
use crate::cli::terminal::output::Format;

/// A run of one task.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Id of the task, its beginning, or FEATURE/KEY
    #[arg(value_name = "TASK")]
    task: String,
    #[command(flatten)]
    run: Box<RunFlags>,
    #[command(flatten)]
    wait: WaitFlags,
}

/// Starts it.
pub async fn run(client: &Client, format: Format, args: RunArgs) -> anyhow::Result<ExitCode> {
    let wish = args.run.flags()?;
    agents::warn_if_unknown(client, wish.agent.as_deref()).await;
    let mut waits = Interrupts::of(args.wait)?;
    let path = format!("/tasks/{}/run", escape(&args.task));
    let started: Started = wait::answer(waits.as_mut(), client.post(&path, &wish)).await?;
    if let Some(interrupts) = waits {
        return wait::wait(client, &started.feature, format, interrupts).await;
    }
    told(format, &started, &args.task, "runs")?;
    Ok(ExitCode::SUCCESS)
}
