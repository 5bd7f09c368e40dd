//! `serve`: one coordinator; `migrate`: the schema.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use ralph_shared::subjects::Subjects;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::output;
use crate::bus::Bus;
use crate::config::Config;
use crate::services::{Deps, Reserved};
use crate::{api, services, store};

/// Run one coordinator: the HTTP API and the loops that move tasks
///
/// It needs a Postgres (DATABASE_URL) and a NATS server with JetStream (NATS_URL); several may run on the same two.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  DATABASE_URL=postgres://… NATS_URL=nats://… ralph-coordinator serve
  ralph-coordinator serve --listen 127.0.0.1:8080 --token-file /run/secrets/ralph-token

Addresses with passwords are read from the environment alone, since arguments can be seen by others.")]
pub struct ServeArgs {
    /// Where the HTTP API listens
    #[arg(
        long,
        env = "RALPH_LISTEN",
        default_value = "127.0.0.1:7226",
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,
    /// File with a token that may do everything
    #[arg(long, env = "RALPH_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Connections to Postgres, at most; from 10 on claims and reports have some of their own
    #[arg(long, env = "RALPH_DB_CONNECTIONS", default_value_t = 16, value_name = "N")]
    pub db_connections: u32,
    /// Prefix of all NATS names, so that two systems can share a server
    #[arg(
        long,
        env = "RALPH_SUBJECT_PREFIX",
        default_value = "ralph",
        value_name = "PREFIX"
    )]
    pub subject_prefix: String,
    /// Bring the schema to this release first
    #[arg(long)]
    pub migrate: bool,
}

/// Bring the database's schema to this release
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  DATABASE_URL=postgres://… ralph-coordinator migrate
  ralph-coordinator migrate --check")]
pub struct MigrateArgs {
    /// Only say what is missing; exit code 1 when something is
    #[arg(long)]
    pub check: bool,
}

/// Runs a coordinator until SIGTERM or Ctrl+C.
pub async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let config = Config::find()?;
    let mut settings = config.settings()?.with_environment()?;
    // Whoever else reaches the API shall not have workers look into their own machines.
    if config.repositories.local.is_none() {
        settings.repositories.local = args.listen.ip().is_loopback();
    }
    let subjects = Subjects::new(&args.subject_prefix).map_err(super::start::Usage)?;
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    let url = database_url()?;
    let share = Reserved::share(args.db_connections);
    let db = store::connect(&url, args.db_connections - share)
        .await
        .context("failed to connect to Postgres; is DATABASE_URL right?")?;
    let pending = store::pending_migrations(&db).await?;
    if args.migrate {
        store::migrate(&db)
            .await
            .context("failed to migrate the database")?;
    } else if pending > 0 {
        bail!(
            "the database lacks {pending} migration(s); run `ralph-coordinator migrate`, or serve with --migrate"
        );
    }
    if let Some(token) = token {
        api::register_token(&db, &api::operator_name(&token), &token)
            .await
            .context("failed to store the token's hash")?;
    }
    let named = std::env::var("NATS_URL").ok().filter(|url| !url.is_empty());
    let nats_url = named.unwrap_or_else(|| "nats://127.0.0.1:4222".to_owned());
    let bus = Bus::connect(&nats_url, subjects)
        .await?
        .traced(settings.tracer.clone());
    let listener = TcpListener::bind(args.listen).await.with_context(|| {
        format!(
            "failed to listen on {}; choose another address with --listen",
            args.listen
        )
    })?;
    tracing::info!(address = %listener.local_addr()?, "serving");

    let shutdown = CancellationToken::new();
    let reserved = match share {
        0 => Reserved::shared(&db),
        _ => Reserved::open(&url)?,
    };
    let deps = Deps {
        db,
        reserved,
        bus,
        settings,
        pulse: Arc::default(),
    };
    let stop = end_on_signal(shutdown.clone())?;
    let api = api::serve(deps.clone(), listener, shutdown.clone());
    let loops = services::serve(deps.clone(), shutdown.clone());
    // It ends with the loops.
    let loops = async {
        loops.await;
        shutdown.cancel();
    };
    tokio::join!(api, loops);
    stop.abort();
    // A statement that hangs is cut off: the server takes its transaction back.
    let close = async { tokio::join!(deps.reserved.close(), deps.db.close()) };
    if tokio::time::timeout(CLOSE, close).await.is_err() {
        tracing::warn!("connections to the database did not close in time; cut off");
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// How long connections to the database may take to close.
const CLOSE: Duration = Duration::from_secs(5);
/// Signals that come within this time are one.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

fn end_on_signal(shutdown: CancellationToken) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let mut terminate = signal(SignalKind::terminate()).context("failed to wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to wait for Ctrl+C")?;
    Ok(tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        shutdown.cancel();
        // Everything is safe to cut (DESIGN 1.6): a second signal doesn't wait for what is under way. A terminal and a supervisor may
        // both tell of the first one.
        tokio::time::sleep(ONE_SIGNAL).await;
        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return;
        };
        let number = tokio::select! {
            _ = terminate.recv() => SignalKind::terminate(),
            _ = interrupt.recv() => SignalKind::interrupt(),
        };
        tracing::warn!("told to stop again; stopping at once");
        std::process::exit(128 + number.as_raw_value());
    }))
}

/// Migrates, or says what is missing.
pub async fn migrate(args: MigrateArgs) -> anyhow::Result<ExitCode> {
    let db = store::connect(&database_url()?, 1)
        .await
        .context("failed to connect to Postgres; is DATABASE_URL right?")?;
    let pending = store::pending_migrations(&db).await?;
    if args.check {
        output::text(&format!("{pending} migration(s) missing\n"))?;
        return Ok(ExitCode::from(u8::from(pending > 0)));
    }
    store::migrate(&db)
        .await
        .context("failed to migrate the database")?;
    output::text(&format!("{pending} migration(s) applied\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn database_url() -> anyhow::Result<String> {
    std::env::var("DATABASE_URL")
        .ok()
        .filter(|url| !url.is_empty())
        .context("DATABASE_URL is not set; set it to postgres://USER:PASSWORD@HOST/DATABASE, or use `ralph-coordinator up`")
}

fn read_token(path: &std::path::Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("failed to read the token from {}", path.display()))?;
    let token = text.trim();
    if token.len() < 16 {
        bail!(
            "the token in {} is too short; use at least 16 characters",
            path.display()
        );
    }
    Ok(token.to_owned())
}
