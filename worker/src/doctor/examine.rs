//! The check of this machine.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ralph_shared::environment;
use ralph_shared::wire::EndReason;
use tokio::sync::watch;

use super::findings::{Findings, Status};
use super::inside::inside;
use super::{agent, gate, parts, tools};
use crate::config::{Machine, MachineArgs};

/// Flags of `ralph-worker doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// The agents of this machine.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Address of NATS, to see whether it answers [env: NATS_URL or NATS_URL_FILE]
    #[arg(long)]
    pub nats: Option<String>,
    /// Repository to try setup and the gate with, in a clone
    #[arg(long, value_name = "PATH")]
    pub repo: Option<PathBuf>,
    /// Command of the gate to try; may be given several times
    #[arg(long = "gate", value_name = "CMD", requires = "repo")]
    pub gate: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
    /// Only try programs here, and whether this port of this machine is reachable: started by the check
    /// inside the sandbox
    #[arg(long, hide = true, value_name = "PORT")]
    pub inside: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// Checks everything that work needs. Agents start one after the other, since each takes hundreds of
/// megabytes. A reason in `end` ends them in order.
pub async fn examine(args: &DoctorArgs, end: watch::Receiver<Option<EndReason>>) -> anyhow::Result<Findings> {
    let machine = Machine::load(args.machine.clone())?;
    let mut found = vec![
        parts::git().await,
        parts::sandbox(&machine.sandbox),
        tools::tools(),
    ];
    if found.iter().all(|part| part.status != Status::Missing) {
        found.extend(parts::signing(&machine).await);
    }
    if found.iter().all(|part| part.status != Status::Missing) {
        found.push(inside(&machine.sandbox).await);
    }
    let named = match &args.nats {
        Some(url) => Some(url.clone()),
        None => environment::value("NATS_URL")?,
    };
    if let Some(url) = named {
        found.push(parts::nats(&url).await);
    }
    if let Some(repo) = &args.repo {
        let mut end = end.clone();
        tokio::select! {
            _ = end.wait_for(Option::is_some) => {}
            part = gate::gate(&machine, repo, &args.gate) => found.push(part),
        }
    }
    let mut agents = Vec::new();
    for configured in machine.agents.values() {
        tracing::info!(agent = configured.name, "opening a session");
        let taken_for = machine.rule_in_words(&configured.name);
        agents.push(agent::examine(configured, taken_for, &machine.sandbox, end.clone()).await);
    }
    Ok(Findings::new(found, agents))
}
