//! `task run TASK`

use std::process::ExitCode;

use clap::Args;
use ralph_api::body::Started;

use crate::client::{Client, escape};
use crate::feature::print_started;
use crate::submit::RunFlags;
use crate::submit::agents;
use crate::terminal::output::Format;
use crate::wait::{self, Interrupts, WaitFlags};

/// Options of a run of one task.
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

pub async fn run(client: &Client, format: Format, args: RunArgs) -> anyhow::Result<ExitCode> {
    let options = args.run.flags()?;
    agents::warn_if_unknown(client, options.agent.as_deref()).await;
    let mut waits = Interrupts::of(args.wait)?;
    let path = format!("/tasks/{}/run", escape(&args.task));
    let started: Started = wait::unless_interrupted(waits.as_mut(), client.post(&path, &options)).await?;
    if let Some(interrupts) = waits {
        return wait::wait(client, &started.feature, format, interrupts).await;
    }
    print_started(format, &started, &args.task, "runs")?;
    Ok(ExitCode::SUCCESS)
}
