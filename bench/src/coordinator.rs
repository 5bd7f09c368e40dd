//! A coordinator as a process.

use anyhow::Context as _;
use ralph_coordinator::bus::Bus;
use ralph_coordinator::flow::Settings;
use ralph_coordinator::services::{self, Deps};
use ralph_coordinator::store;
use ralph_shared::subjects::Subjects;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What a coordinator is told.
#[derive(Debug, Clone, clap::Args)]
pub struct CoordinatorArgs {
    /// Address of Postgres
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database: String,
    /// Address of NATS
    #[arg(long, env = "NATS_URL", hide_env_values = true)]
    nats_url: String,
    /// Prefix of all subjects
    #[arg(long)]
    prefix: String,
}

/// Serves until SIGTERM.
///
/// # Errors
/// When a server can't be reached.
pub async fn run(args: CoordinatorArgs) -> anyhow::Result<()> {
    let subjects = Subjects::new(&args.prefix).map_err(anyhow::Error::msg)?;
    let deps = Deps {
        db: store::connect(&args.database, 16)
            .await
            .context("failed to connect to Postgres")?,
        bus: Bus::connect(&args.nats_url, subjects).await?,
        settings: Settings::default(),
    };
    let shutdown = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let token = shutdown.clone();
    tokio::spawn(async move {
        terminate.recv().await;
        token.cancel();
    });
    services::serve(deps, shutdown).await
}
