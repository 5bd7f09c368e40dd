//! The worker's command line.

use clap::{Parser, Subcommand};
use ralph_shared::logging::{self, LogFormat};
use ralph_worker::config::{Config, RunArgs};
use ralph_worker::life;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Runs coding agents for a Ralph coordinator
#[derive(Debug, Parser)]
#[command(name = "ralph-worker", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take work from pools until told to stop
    #[command(after_help = "Examples:\n  ralph-worker run --slots 4\n  \
        ralph-worker run --pool gpu --agent 'gemini --experimental-acp' --nats nats://worker:secret@broker:4222")]
    Run(RunArgs),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    logging::init("info,async_nats=warn", LogFormat::Text);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let Command::Run(args) = cli.command;
        let config = Config::load(args)?;
        let shutdown = CancellationToken::new();
        let mut term = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let token = shutdown.clone();
        tokio::spawn(async move {
            tokio::select! { _ = term.recv() => {} _ = interrupt.recv() => {} }
            token.cancel();
            tokio::select! { _ = term.recv() => {} _ = interrupt.recv() => {} }
            tracing::warn!("told twice: leaving at once");
            std::process::exit(130);
        });
        life::run(config, shutdown).await
    })
}
