//! Measures Ralph's dispatch path against its targets.
//!
//! Servers are real; coordinator and worker are separate processes. Only the worker is a [`stub`], whose
//! sessions cost nothing. Each workload starts with a fresh database. With several runs the workloads
//! alternate, so that other load on the machine affects all of them.
//! the machine meets all of them.

mod bare;
mod database;
mod figures;
mod http;
mod load;
mod peer;
mod process;
mod servers;
mod strategy;
mod stub;
mod system;
mod workloads;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use figures::Figures;
use servers::{Addresses, Servers};

/// Measures Ralph's dispatch path against its targets, and the limits of the same servers
#[derive(Debug, Parser)]
#[command(name = "ralph-bench", version)]
struct Cli {
    #[command(flatten)]
    addresses: Addresses,
    /// File for the results
    #[arg(
        long,
        global = true,
        default_value = "target/bench/results.json",
        value_name = "FILE"
    )]
    results: PathBuf,
    /// Number of runs of each workload
    #[arg(long, global = true, default_value_t = 1, value_name = "N")]
    runs: usize,
    /// Duration of the gate of `landing`, in seconds; with 0, only landings without a gate
    #[arg(long, global = true, default_value_t = 10, value_name = "SECONDS")]
    gate_s: u32,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    /// Everything, alternating
    All,
    /// Only these workloads, alternating
    Only {
        /// Names of the workloads
        #[arg(required = true)]
        workloads: Vec<Workload>,
    },
    /// Results of the strategies on simulated tasks; no server is needed
    Strategy {
        /// Tasks per population
        #[arg(long, default_value_t = 10_000, value_name = "N")]
        tasks: usize,
        /// The same seed gives the same figures
        #[arg(long, default_value_t = 1, value_name = "N")]
        seed: u64,
    },
    /// Ralph as one system in a harness for several
    Peer(peer::PeerArgs),
    /// A worker without agents
    #[command(hide = true)]
    Stub(stub::StubArgs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Workload {
    /// Limits of the same Postgres
    Limits,
    /// Drain 20,000 independent tasks
    W1,
    /// Latency of submissions and of freed dependents
    W2,
    /// A layered graph of 2,000 tasks
    W3,
    /// Kill a worker
    W4,
    /// Claims of the next task, at 1,000 and 1,000,000 tasks
    Next,
    /// The full context of a claim, with a memory of 1,120,000 entries
    Memory,
    /// A file of 100,000 tasks
    Submit,
    /// Submissions, statuses and watchers over the API
    Front,
    /// The page in a browser: its first view, changes, large graphs, a long transcript, 100 open pages
    Page,
    /// 5,000 half-sent requests, and a stopped database
    Flood,
    /// Memory, processor and statements of an idle system
    Idle,
    /// Ralph's overhead of a session, beside a bare client
    Session,
    /// A session of 100,000 updates
    Stream,
    /// 500 sessions of one worker
    Sessions,
    /// A workspace of 50,000 files, and landings of small tasks
    Workspace,
    /// 32 attempts that finish together on 8 workers
    Turns,
    /// 16 attempts with a slow gate, on 8 slots and on one
    Landing,
}

const ALL: [Workload; 17] = [
    Workload::Limits,
    Workload::W1,
    Workload::W2,
    Workload::W3,
    Workload::W4,
    Workload::Next,
    Workload::Memory,
    Workload::Submit,
    Workload::Front,
    Workload::Page,
    Workload::Flood,
    Workload::Idle,
    Workload::Session,
    Workload::Stream,
    Workload::Sessions,
    Workload::Workspace,
    Workload::Turns,
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    ralph_shared::logging::init("warn", ralph_shared::logging::LogFormat::Text);
    let workloads = match cli.command.clone() {
        Command::Stub(args) => return stub::run(args).await,
        Command::Peer(args) => return peer::run(args).await,
        Command::Strategy { tasks, seed } => {
            let (text, holds) = strategy::report(tasks, seed);
            print!("{text}");
            anyhow::ensure!(holds, "a bar fails");
            return Ok(());
        }
        Command::All => ALL.to_vec(),
        Command::Only { workloads } => workloads,
    };
    let servers = Servers::start(&cli.addresses).await?;
    let mut figures = Figures::default();
    for run in 1..=cli.runs {
        for &workload in &workloads {
            eprintln!("run {run} of {}: {workload:?}", cli.runs);
            measure(workload, cli.gate_s, &servers, &mut figures).await?;
        }
    }
    let figures = figures.finish();
    figures::write(&figures, &cli.results)?;
    figures::print(&figures);
    Ok(())
}

async fn measure(
    workload: Workload,
    gate_s: u32,
    servers: &Servers,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    match workload {
        Workload::Limits => workloads::limits(servers, figures).await,
        Workload::W1 => workloads::drain(servers, 20_000, figures).await,
        Workload::W2 => workloads::latency(servers, 300, figures).await,
        Workload::W3 => workloads::dag(servers, figures).await,
        Workload::W4 => {
            workloads::restarted(servers, 2_000, figures).await?;
            workloads::vanished(servers, 2_000, figures).await
        }
        Workload::Next => workloads::next(servers, 1_000_000, figures).await,
        Workload::Memory => workloads::memory(servers, figures).await,
        Workload::Submit => workloads::submit(servers, 100_000, figures).await,
        Workload::Front => workloads::front(servers, figures).await,
        Workload::Page => workloads::page(servers, figures).await,
        Workload::Flood => workloads::flood(servers, figures).await,
        Workload::Idle => workloads::idle(servers, figures).await,
        Workload::Session => workloads::session(servers, 100, figures).await,
        Workload::Stream => workloads::stream(servers, 100_000, figures).await,
        Workload::Sessions => workloads::sessions(servers, 500, figures).await,
        Workload::Workspace => workloads::workspace(figures).await,
        Workload::Turns => workloads::turns(servers, figures).await,
        Workload::Landing => workloads::landing(servers, gate_s, figures).await,
    }
}
