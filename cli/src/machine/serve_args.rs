//! Flags of `ralph-coordinator serve`, which `config` accepts too.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Run one coordinator: the HTTP API and the loops that move tasks
///
/// This needs a Postgres (DATABASE_URL) and a NATS server with JetStream (NATS_URL); several coordinators
/// may share both.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  DATABASE_URL=postgres://… NATS_URL=nats://… ralph-coordinator serve
  ralph-coordinator serve --listen 127.0.0.1:8080 --token-file /run/secrets/ralph-token

Addresses with passwords are read from the environment alone, since arguments can be seen by others; NAME_FILE names a file with the
value of NAME. docs/connections.md describes TLS and logins. The coordinator waits for unavailable servers. RALPH_LOG sets the log filter:
`debug`, or `info,ralph_coordinator::flow=debug`; RALPH_LOG_FORMAT=json logs lines of JSON.")]
pub struct ServeArgs {
    /// Address of the HTTP API
    #[arg(
        long,
        env = "RALPH_LISTEN",
        default_value = "127.0.0.1:7226",
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,
    /// File with a token for all operations
    #[arg(long, env = "RALPH_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with a read-only token, for example for scraping /metrics
    #[arg(long, env = "RALPH_READ_TOKEN_FILE", value_name = "FILE")]
    pub read_token_file: Option<PathBuf>,
    /// Another address that serves /healthz and /readyz [default: none]
    #[arg(long, env = "RALPH_HEALTH_LISTEN", value_name = "ADDR")]
    pub health_listen: Option<SocketAddr>,
    /// Connections to Postgres, at most; from 4 on some are reserved for heartbeats, from 12 on some for
    /// claims and reports
    #[arg(long, env = "RALPH_DB_CONNECTIONS", default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub db_connections: u32,
    /// Prefix of all NATS names, so that two systems can share a server
    #[arg(
        long,
        env = "RALPH_SUBJECT_PREFIX",
        default_value = "ralph",
        value_name = "PREFIX"
    )]
    pub subject_prefix: String,
    /// Migrate the schema to this release first
    #[arg(long)]
    pub migrate: bool,
}
