//! `submit …`
//!
//! The client resolves everything that only its machine knows: files, the repository and its base commit. A
//! submission is complete and doesn't depend on the client afterwards.

pub mod agents;
mod checked;
mod feature;
mod filters;
mod gate;
mod limits;
pub(crate) mod priority;
mod prompt;
mod repo;
mod task;
mod top_level;

use std::process::ExitCode;

use clap::Subcommand;
use ralph_api::body::Accepted;

use super::client::Client;
use super::wait::{self, Interrupts};
use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::terminal::condition;
use crate::terminal::output::{self, Format};
pub use checked::CheckedGraph;
pub use feature::FeatureArgs;
pub(crate) use feature::read_text;
pub use limits::{BudgetFlags, RunFlags, protect};
pub use repo::{RepoFlags, checked_out, here, identity};
pub use task::{TaskArgs, submit as task};

/// Submit work
#[derive(Debug, Subcommand)]
pub enum SubmitCommand {
    /// Submit a feature: a graph of tasks that many agents work on
    Feature(Box<feature::FeatureArgs>),
    /// Submit one task
    Task(Box<task::TaskArgs>),
}

pub async fn run(globals: &Globals, command: SubmitCommand) -> anyhow::Result<ExitCode> {
    match command {
        SubmitCommand::Feature(args) => feature::submit(globals, *args).await,
        SubmitCommand::Task(args) => task::submit(globals, *args).await,
    }
}

/// Creates a feature without running it.
pub async fn draft(globals: &Globals, mut args: FeatureArgs) -> anyhow::Result<ExitCode> {
    if args.wait.wait {
        let why = "`feature create` starts no run, so there is nothing to wait for; `feature run NAME --wait` starts one";
        return Err(Usage(why.to_owned()).into());
    }
    args.draft = true;
    feature::submit(globals, args).await
}

fn warn(warnings: impl IntoIterator<Item = impl std::fmt::Display>) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

/// Reports an accepted submission, and waits for its end with `--wait`.
async fn accepted(
    client: &Client,
    format: Format,
    accepted: &Accepted,
    waits: Option<Interrupts>,
) -> anyhow::Result<ExitCode> {
    warn(&accepted.warnings);
    let feature = &accepted.feature;
    let tasks = match (&accepted.task, &accepted.key) {
        (Some(task), Some(key)) => format!("task {task} ({key})"),
        (Some(task), None) => format!("task {task}"),
        (None, _) => format!("{} tasks", accepted.tasks),
    };
    let run = match &accepted.run {
        Some(run) => format!(", {run}"),
        None => format!(", {}", condition::words(&feature.condition)),
    };
    let text = format!("{} ({}): {tasks}{run}", feature.name, feature.id);
    if let Some(interrupts) = waits {
        eprintln!("{text}");
        return wait::wait_accepted(client, &feature.id, format, interrupts).await;
    }
    output::answer(format, accepted, &format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
