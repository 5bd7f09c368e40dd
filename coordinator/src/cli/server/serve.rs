//! `serve`: one coordinator; `migrate`: the schema.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use ralph_cli::machine::serve_args::ServeArgs;
use ralph_cli::terminal::output;
use ralph_shared::subjects::Subjects;
use ralph_shared::{broker, environment, file};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::Health;
use crate::cli::server::wait_for_servers;
use crate::config::{Config, settings_of};
use crate::flow::Settings;
use crate::services::{Deps, Reserved, Shares};
use crate::store::access::Role;
use crate::{api, services, store};

/// Bring the database's schema to this release
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  DATABASE_URL=postgres://… ralph-coordinator migrate
  ralph-coordinator migrate --check")]
pub struct MigrateArgs {
    /// Only report the number of missing migrations; exit code 1 if any are missing
    #[arg(long)]
    pub check: bool,
}

/// Runs a coordinator until SIGTERM or Ctrl+C.
pub async fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = settings(&args)?;
    let subjects = Subjects::new(&args.subject_prefix).map_err(ralph_cli::args::usage::Usage)?;
    let tokens = tokens(&args)?;
    let url = database_url()?;
    let nats_url = broker::url()?;
    let shutdown = CancellationToken::new();
    let stop = end_on_signal(shutdown.clone())?;
    let health = Health::default();
    let health_server = serve_health(&args, &health, &shutdown).await?;
    // Fail at once if the address is taken. Close the listener again, so that callers are refused until the
    // coordinator serves.
    drop(listen(args.listen, "--listen").await?);
    let prepared = async {
        let server = wait_for_servers::postgres(&url, &health).await?;
        server.warn_of_plain_text();
        let shares = Shares::of(args.db_connections);
        let db = store::connect_with(&server, shares.loops);
        schema(&db, args.migrate).await?;
        register(&db, tokens).await?;
        let bus = wait_for_servers::bus(&nats_url, &subjects, &health).await?;
        broker::warn_of_plain_text(&bus.client, &nats_url);
        anyhow::Ok((server, shares, db, bus.traced(settings.tracer.clone())))
    };
    let (server, shares, db, bus) = tokio::select! {
        prepared = prepared => prepared?,
        () = shutdown.cancelled() => {
            tracing::info!("stopped while waiting for its servers");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let listener = listen(args.listen, "--listen").await?;
    tracing::info!(address = %listener.local_addr()?, "serving");
    // Each pool has its own connections.
    let pool = |connections| match connections {
        0 => db.clone(),
        n => store::connect_with(&server, n),
    };
    let first = pool(shares.first);
    let deps = Deps {
        db: db.clone(),
        reserved: match shares.reserved {
            0 => Reserved::shared(&first),
            _ => Reserved::open(&server, first),
        },
        bus,
        settings,
        pulse: Arc::default(),
    };
    let for_api = Deps {
        db: pool(shares.api),
        ..deps.clone()
    };
    health.serves(deps.clone());
    run(&deps, &for_api, listener, &shutdown).await;
    let _ = health_server.await;
    stop.abort();
    close(&deps, &for_api).await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

fn settings(args: &ServeArgs) -> anyhow::Result<Settings> {
    let found = Config::find()?;
    let mut settings = settings_of(&found)?.with_environment()?;
    settings.in_force = ralph_cli::machine::config::of_coordinator("serve")?;
    // If others can reach the API, workers must not look for repositories on their own machines.
    if found.repositories.local.is_none() {
        settings.repositories.local = args.listen.ip().is_loopback();
    }
    Ok(settings)
}

fn tokens(args: &ServeArgs) -> anyhow::Result<[(Option<String>, Role); 2]> {
    Ok([
        (
            args.token_file.as_deref().map(read_token).transpose()?,
            Role::Admin,
        ),
        (
            args.read_token_file.as_deref().map(read_token).transpose()?,
            Role::Read,
        ),
    ])
}

async fn serve_health(
    args: &ServeArgs,
    health: &Health,
    shutdown: &CancellationToken,
) -> anyhow::Result<JoinHandle<()>> {
    let Some(address) = args.health_listen else {
        return Ok(tokio::spawn(async {}));
    };
    let listener = listen(address, "--health-listen").await?;
    Ok(tokio::spawn(api::serve_health(
        health.clone(),
        listener,
        shutdown.clone(),
    )))
}

async fn register(db: &PgPool, tokens: [(Option<String>, Role); 2]) -> anyhow::Result<()> {
    for (token, role) in tokens {
        let Some(token) = token else { continue };
        api::register_token(db, &api::operator_name(&token), &token, role)
            .await
            .context("failed to store a token's hash")?;
    }
    Ok(())
}

async fn run(deps: &Deps, for_api: &Deps, listener: TcpListener, shutdown: &CancellationToken) {
    let api = api::serve(for_api.clone(), listener, shutdown.clone());
    let loops = services::serve(deps.clone(), shutdown.clone());
    // The API ends with the loops.
    let loops = async {
        loops.await;
        shutdown.cancel();
    };
    tokio::join!(api, loops);
}

async fn close(deps: &Deps, for_api: &Deps) {
    // A statement that hangs is cut off, and the server rolls its transaction back.
    let close = async { tokio::join!(deps.reserved.close(), for_api.db.close(), deps.db.close()) };
    if tokio::time::timeout(CLOSE_WITHIN, close).await.is_err() {
        tracing::warn!("connections to the database did not close in time; cut off");
    }
}

async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("failed to listen on {address}; choose another address with {flag}"))
}

async fn schema(db: &PgPool, migrate: bool) -> anyhow::Result<()> {
    let pending = store::pending_migrations(db).await?;
    if migrate {
        return store::migrate(db).await.context("failed to migrate the database");
    }
    if pending > 0 {
        bail!(
            "the database lacks {pending} migration(s); run `ralph-coordinator migrate`, or serve with --migrate"
        );
    }
    Ok(())
}

/// Time limit for closing database connections.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// Signals within this time count as one.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

fn end_on_signal(shutdown: CancellationToken) -> anyhow::Result<JoinHandle<()>> {
    let mut terminate = signal(SignalKind::terminate()).context("failed to wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to wait for Ctrl+C")?;
    Ok(tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        shutdown.cancel();
        // Everything may be cut off safely (DESIGN 1.6), so a second signal doesn't wait for work in
        // progress. A terminal and a supervisor may both send the first signal.
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
        tracing::warn!("second stop signal; stopping at once");
        std::process::exit(128 + number.as_raw_value());
    }))
}

/// Migrates, or reports missing migrations.
pub async fn migrate(args: MigrateArgs) -> anyhow::Result<ExitCode> {
    let db = store::connect(&database_url()?, 1).await?;
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
    environment::value("DATABASE_URL")?.context(
        "DATABASE_URL is not set; set it, or DATABASE_URL_FILE, to postgres://USER:PASSWORD@HOST/DATABASE, or use \
         `ralph-coordinator up`",
    )
}

fn read_token(path: &std::path::Path) -> anyhow::Result<String> {
    let text = file::read_text(path, file::SMALL_BYTES).context("failed to read a token")?;
    let token = text.trim();
    if token.len() < 16 {
        bail!(
            "the token in {} is too short; use at least 16 characters",
            path.display()
        );
    }
    Ok(token.to_owned())
}
