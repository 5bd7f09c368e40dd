//! A worker without agents: it sends hello, renews its leases, claims, and reports at once. The coordinator,
//! Postgres and the broker see the same traffic as from a real worker; only the sessions cost nothing.
//!
//! Its slots behave like those of the worker: a free slot claims again at once, and waits for a ticket only
//! if there was nothing to claim.

mod instance;
mod log;
mod slot;
mod text;

use std::path::PathBuf;
use std::sync::Arc;

use ralph_shared::subjects::Subjects;
use tokio::task::JoinSet;

pub use log::{Event, Mark, now, read as read_log};

/// Options of a stub.
#[derive(Debug, Clone, clap::Args)]
pub struct StubArgs {
    /// Address of NATS
    #[arg(long, env = "NATS_URL", hide_env_values = true)]
    pub nats: String,
    /// Prefix of all subjects
    #[arg(long)]
    pub prefix: String,
    /// The worker's name
    #[arg(long)]
    pub name: String,
    /// Sessions at once
    #[arg(long)]
    pub slots: u32,
    /// Duration of a session. Milliseconds
    #[arg(long, default_value_t = 0)]
    pub work_ms: u64,
    /// File for a line at each start and end of a session
    #[arg(long)]
    pub log: Option<PathBuf>,
}

pub async fn run(args: StubArgs) -> anyhow::Result<()> {
    let subjects = Subjects::new(&args.prefix).map_err(anyhow::Error::msg)?;
    let log = args.log.as_deref().map(log::Log::open).transpose()?;
    let instance = Arc::new(instance::Instance::begin(&args, subjects).await?);
    let log = Arc::new(log);
    let mut loops = JoinSet::new();
    loops.spawn(instance::send_heartbeats(Arc::clone(&instance)));
    loops.spawn(instance::orders(Arc::clone(&instance)));
    for _ in 0..args.slots {
        loops.spawn(slot::run(Arc::clone(&instance), Arc::clone(&log), args.work_ms));
    }
    match loops.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}
