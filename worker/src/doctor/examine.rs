//! The examination.

use clap::{Args, ValueEnum};
use ralph_shared::wire::EndReason;
use tokio::sync::watch;

use super::findings::Findings;
use super::{agent, parts};
use crate::config::{Machine, MachineArgs};

/// Flags of `ralph-worker doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// The agents of this machine.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Address of NATS, to see whether it answers
    #[arg(long, env = "NATS_URL", hide_env_values = true)]
    pub nats: Option<String>,
    /// How the findings are printed
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// How findings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// Looks at everything that work needs. Each agent takes as long as it starts; they are started one after the other,
/// since each takes hundreds of megabytes. A reason in `end` ends them in order.
///
/// # Errors
/// When the configuration can't be used.
pub async fn examine(args: &DoctorArgs, end: watch::Receiver<Option<EndReason>>) -> anyhow::Result<Findings> {
    let machine = Machine::load(args.machine.clone())?;
    let mut found = vec![parts::git().await, parts::sandbox(&machine.sandbox)];
    if let Some(url) = &args.nats {
        found.push(parts::nats(url).await);
    }
    let mut agents = Vec::new();
    for configured in machine.agents.values() {
        tracing::info!(agent = configured.name, "shaking hands");
        let taken_for = machine.taken_for(&configured.name);
        agents.push(agent::examine(configured, taken_for, &machine.sandbox, end.clone()).await);
    }
    Ok(Findings::new(found, agents))
}
