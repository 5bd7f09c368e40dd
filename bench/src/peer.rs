//! Commands for a harness that drives several systems: `setup`, `enqueue`, `produce`, `worker` and `dag`,
//! which print `READY` and `RESULT {json}`. The harness can then measure Ralph in the same run, on the same
//! servers.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::database;
use crate::load;
use crate::process::cpu_seconds;
use crate::stub::now;
use crate::system::{Stub, System, kill};

/// Options of all commands.
#[derive(Debug, Clone, Args)]
pub struct PeerArgs {
    #[command(subcommand)]
    command: PeerCommand,
    /// Address of the database; its name also names the streams
    #[arg(long, global = true, default_value = "")]
    url: String,
    /// Address of NATS
    #[arg(
        long,
        global = true,
        env = "NATS_URL",
        default_value = "nats://127.0.0.1:54222",
        hide_env_values = true
    )]
    nats: String,
    /// Mode of operation; there is only one
    #[arg(long, global = true)]
    variant: Option<String>,
}

#[derive(Debug, Clone, Subcommand)]
enum PeerCommand {
    /// Create the schema
    Setup,
    /// Add independent tasks with one call
    Enqueue {
        #[arg(long)]
        n: usize,
    },
    /// Add tasks one by one
    Produce {
        #[arg(long)]
        n: usize,
        /// Pause after each. Milliseconds
        #[arg(long)]
        ms: u64,
    },
    /// Work until everything is done, or for ever
    Worker {
        /// End when this many tasks are done
        #[arg(long)]
        expect: Option<usize>,
        /// File for starts and ends
        #[arg(long)]
        log: Option<PathBuf>,
        /// Duration of a task. Milliseconds
        #[arg(long, default_value_t = 0)]
        sleep: u64,
    },
    /// Add a layered graph and work until it is done
    Dag {
        #[arg(long)]
        layers: usize,
        #[arg(long)]
        width: usize,
    },
}

pub async fn run(args: PeerArgs) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut system = System::existing(&args.url, &args.nats, dir.path());
    match args.command {
        PeerCommand::Setup => {
            let db = system.pool(1).await?;
            ralph_coordinator::store::migrate(&db).await?;
            system.forget_streams().await?;
            result(&json!({ "ok": 1 }));
        }
        PeerCommand::Enqueue { n } => {
            let (db, bus) = (system.pool(1).await?, system.bus().await?);
            let text = load::independent(n);
            let began = now();
            load::submit(&db, &bus, "enqueued", &text).await?;
            result(&json!({ "n": n, "secs": now() - began }));
        }
        PeerCommand::Produce { n, ms } => {
            let (db, bus) = (system.pool(1).await?, system.bus().await?);
            for number in 0..n {
                let text = load::single(number, now());
                load::submit(&db, &bus, &format!("produced-{number}"), &text).await?;
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            result(&json!({ "n": n }));
        }
        PeerCommand::Worker { expect, log, sleep } => {
            worker(&mut system, expect, Stub { work_ms: sleep, log }).await?
        }
        PeerCommand::Dag { layers, width } => dag(&mut system, layers, width).await?,
    }
    Ok(())
}

async fn worker(system: &mut System, expect: Option<usize>, stub: Stub) -> anyhow::Result<()> {
    let coordinator = system.start_coordinator()?;
    let stub = system.start_stub("peer", &stub)?;
    let db = system.pool(1).await?;
    let welcomed = async || {
        Ok(sqlx::query_scalar("select exists (select from workers)")
            .fetch_one(&db)
            .await?)
    };
    system.until("the stub is welcome", welcomed).await?;
    db.close().await;
    println!("READY");
    let Some(n) = expect else {
        std::future::pending::<()>().await;
        return Ok(());
    };
    system.until_done().await?;
    let done = now();
    let cpu = cpu_seconds(coordinator)? + cpu_seconds(stub.pid())?;
    let mut conn = database::connection(system.database()).await?;
    let first: f64 = sqlx::query_scalar("select extract(epoch from min(claimed_at))::float8 from dispatches")
        .fetch_one(&mut conn)
        .await?;
    kill(stub).await;
    system.stop_coordinator().await;
    result(&json!({ "n": n, "secs": done - first, "cpu_s": cpu }));
    Ok(())
}

async fn dag(system: &mut System, layers: usize, width: usize) -> anyhow::Result<()> {
    let (db, bus) = (system.pool(1).await?, system.bus().await?);
    let coordinator = system.start_coordinator()?;
    let stub = system.start_stub("peer", &Stub::default())?;
    system.until_idle(&bus).await?;
    let text = load::layered(layers, width);
    let began = now();
    load::submit(&db, &bus, "layered", &text).await?;
    let submitted = now();
    system.until_done().await?;
    let done = now();
    let cpu = cpu_seconds(coordinator)? + cpu_seconds(stub.pid())?;
    kill(stub).await;
    system.stop_coordinator().await;
    let bad = load::ran_too_early(system.database()).await?;
    let (secs, submit_s) = (done - began, submitted - began);
    result(&json!({ "n": layers * width, "secs": secs, "submit_s": submit_s, "bad": bad, "cpu_s": cpu }));
    Ok(())
}

fn result(value: &Value) {
    println!("RESULT {value}");
}
