//! Flags of `up`.

use std::net::SocketAddr;

use clap::Args;

use ralph_cli::terminal::duration::Span;

/// Start everything on this machine: Postgres, NATS, a coordinator, workers
///
/// Everything is stored in the data folder (--data, default .ralph). Ctrl+C stops everything in order, and
/// the next `up` continues. If DATABASE_URL or NATS_URL is set, `up` uses that server instead of a private
/// one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph-coordinator up
  ralph-coordinator up --workers 4 --agent claude
  ralph-coordinator up --detach
  ralph-coordinator up --data /srv/ralph --listen 127.0.0.1:8080")]
pub struct UpArgs {
    /// Number of workers
    #[arg(long, env = "RALPH_WORKERS", default_value_t = 2, value_name = "N")]
    pub workers: u16,
    /// Sessions that each worker runs at once
    #[arg(long, env = "RALPH_SLOTS", default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub slots: u16,
    /// The agent: a preset's name (claude, codex, gemini, opencode, …) or a command, split as a shell would
    /// [default: the agent of the workers' .ralph.toml, else claude]
    #[arg(long, env = "RALPH_AGENT", value_name = "AGENT")]
    pub agent: Option<String>,
    /// Pool that the workers serve; may be given several times [default: default]
    #[arg(long = "pool", value_name = "POOL")]
    pub pools: Vec<String>,
    /// Address of the HTTP API [default: a free port of 127.0.0.1, the same at every start]
    #[arg(long, env = "RALPH_LISTEN", value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Time that running sessions get after a stop signal; then they are ended, and their work is kept
    #[arg(long, env = "RALPH_DRAIN_TIMEOUT", default_value = "10s", value_name = "TIME")]
    pub drain_timeout: Span,
    /// Return once everything runs in the background; `ralph-coordinator down` stops it
    #[arg(long)]
    pub detach: bool,
}
