//! Starts, watches and stops everything.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use ralph_cli::args::globals::Globals;
use ralph_cli::client::Client;
use ralph_cli::client::endpoint::Endpoint;
use ralph_cli::git::git;
use ralph_cli::machine::programs::Programs;
use ralph_cli::submit::agents;
use ralph_cli::terminal::output;
use ralph_shared::terminal::Paint;
use tokio::time::Instant;

use super::args::UpArgs;
use super::children::{self, Child};
use super::detach::detach;
use super::servers::Servers;
use super::steps::{Steps, report};
use super::stop::{Running, Signals};
use crate::api::body::CreatedLogin;
use crate::config::Config;
use crate::embedded::datadir::{DEFAULT_NAME, write_private};
use crate::embedded::{DataDir, Phase, Published};
use crate::store::view::{Page, WorkerStatus, WorkerView};

/// Time limit for a child to become ready. A working child needs much less.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// Exits of a child during the wait, after which the start fails.
const EXITS_ALLOWED: u32 = 3;

/// Starts everything, prints the address, and runs until SIGTERM or Ctrl+C.
pub async fn up(globals: &Globals, args: UpArgs) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new().context("failed to wait for signals")?;
    let programs = Programs::find()?;
    let folder = globals
        .data
        .clone()
        .unwrap_or_else(|| PathBuf::from(DEFAULT_NAME));
    // Asks once, at the terminal, before the children would refuse the file.
    Config::find()?;
    if args.detach {
        return detach(&mut signals).await;
    }
    refuse_tracked(&folder).await?;
    let data = DataDir::open(&folder)?;
    // A killed `up` leaves its address, which would mislead commands.
    data.unpublish();
    let mut running = Running::default();
    let started = tokio::select! {
        started = start(&args, &programs, &data, &mut running) => started,
        () = signals.next() => Err(anyhow::anyhow!("stopped before it was ready")),
    };
    let code = match started {
        Ok(()) => {
            tokio::select! {
                () = watch(&running) => {}
                () = signals.next() => {}
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(error),
    };
    data.unpublish();
    running.stop(&mut signals).await;
    code
}

/// Refuses a data folder with files that git tracks. They came with a commit, maybe an agent's, and the
/// servers would obey them.
async fn refuse_tracked(folder: &Path) -> anyhow::Result<()> {
    let listed = git(
        Some(folder),
        &["ls-files", "--", ".", ":!knowledge", ":!features", ":!.gitignore"],
    )
    .await;
    match listed.ok().as_deref().and_then(|files| files.lines().next()) {
        None => Ok(()),
        Some(file) => bail!(
            "{} is the data folder of `up`, but git tracks {file} in it, so a commit could decide what runs here. Take it out of \
             the repository (git rm -r --cached), or use another data folder (--data FOLDER)",
            folder.display()
        ),
    }
}

async fn start(
    args: &UpArgs,
    programs: &Programs,
    data: &DataDir,
    running: &mut Running,
) -> anyhow::Result<()> {
    let steps = Steps::new();
    report(&format!("data folder {}", data.root().display()));
    let servers = running.servers.insert(Servers::start(data, &steps).await?);
    let token = data.secret("api-token")?;
    let token_file = data.path("secrets/api-token");
    let listen = address(args.listen, data)?;
    let url = format!("http://{listen}");
    let client = Client::new(Endpoint {
        url: url.clone(),
        token: token.clone(),
    })?;

    let coordinator = running.coordinator.insert(children::coordinator(
        programs,
        data,
        servers,
        listen,
        &token_file,
    ));
    let answers = async {
        ready(coordinator, || async {
            client.get::<Page<WorkerView>>("/workers").await.is_ok()
        })
        .await?;
        anyhow::Ok(((), url.clone()))
    };
    steps.step("coordinator", answers).await?;

    for n in 1..=args.workers {
        let name = worker_name(servers.shared(), n);
        let worker = children::worker(programs, data, servers, args, &name)?;
        running.workers.push(worker);
    }
    if !running.workers.is_empty() {
        await_workers(args, &running.workers, &client, &steps).await?;
    }
    data.publish(&Published {
        url: url.clone(),
        token,
        agent: args.agent.clone(),
    })?;
    let login: CreatedLogin = client.post("/logins", &serde_json::json!({})).await?;
    output::text(&format!("{url}\n"))?;
    let page = format!("{url}{}", login.path);
    report(&format!(
        "ready in {:.1} s; logs are in {}\n\
         next: `ralph submit feature NAME --tasks FILE --wait` in a repository, `ralph status --watch`\n\
         the page: {} (this link logs in once, within five minutes; `ralph open` prints another)",
        steps.seconds(),
        data.path("logs").display(),
        Paint::stderr().link(&page, &page)
    ));
    Ok(())
}

async fn await_workers(
    args: &UpArgs,
    workers: &[Child],
    client: &Client,
    steps: &Steps,
) -> anyhow::Result<()> {
    let answer = async {
        for worker in workers {
            ready(worker, || is_ready(client, &worker.name)).await?;
        }
        anyhow::Ok(((), slots_in_words(workers.len(), args.slots)))
    };
    steps.step("workers", answer).await?;
    let agents = agents::configured(args.agent.as_deref());
    for (problem, advice) in agents.iter().filter_map(agents::Agent::trouble) {
        report(&format!("warning: {problem}\n  {advice}"));
    }
    Ok(())
}

fn slots_in_words(workers: usize, slots: u16) -> String {
    match slots {
        1 => format!("{workers}, a slot each"),
        n => format!("{workers}, {n} slots each"),
    }
}

async fn is_ready(client: &Client, name: &str) -> bool {
    let workers = client.get::<Page<WorkerView>>("/workers").await;
    workers.is_ok_and(|page| {
        page.items
            .iter()
            .any(|worker| worker.name == name && worker.status == WorkerStatus::Ready)
    })
}

/// Waits until a child answers.
async fn ready<F: Future<Output = bool>>(child: &Child, answers: impl Fn() -> F) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    let phases = child.supervised.phases();
    loop {
        if answers().await {
            return Ok(());
        }
        match &*phases.borrow() {
            Phase::BackingOff { exits, problem } if *exits >= EXITS_ALLOWED => {
                bail!("the {} does not start: {problem}", child.name)
            }
            Phase::Finished => bail!("the {} was drained before it was ready", child.name),
            _ => {}
        }
        if Instant::now() >= deadline {
            bail!(
                "the {} did not get ready within {} s",
                child.name,
                READY_WITHIN.as_secs()
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Reports each child that ends, or that ended right after it was ready. A child is restarted, except a
/// drained worker.
async fn watch(running: &Running) {
    let mut watched = FuturesUnordered::new();
    let children = running.coordinator.iter().chain(&running.workers);
    let children = children.map(|child| (child.name.clone(), child.supervised.phases()));
    let servers = running.servers.iter().flat_map(Servers::phases);
    let servers = servers.map(|(name, phases)| (name.to_owned(), phases));
    for (name, mut phases) in children.chain(servers) {
        watched.push(async move {
            loop {
                match &*phases.borrow_and_update() {
                    Phase::BackingOff { problem, .. } => {
                        report(&format!("{problem}\nstarting {name} again"));
                    }
                    Phase::Finished => report(&format!(
                        "{name} was drained and has ended; it comes back when `up` is started again"
                    )),
                    _ => {}
                }
                if phases.changed().await.is_err() {
                    return;
                }
            }
        });
    }
    while watched.next().await.is_some() {}
    std::future::pending().await
}

/// With shared servers, a worker's name includes the machine's.
fn worker_name(shared: bool, n: u16) -> String {
    let host = if shared {
        nix::unistd::gethostname().ok()
    } else {
        None
    };
    let label: String = host
        .map(|host| host.to_string_lossy().to_lowercase())
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-')
        .take(30)
        .collect();
    if label.is_empty() {
        format!("worker-{n}")
    } else {
        format!("{label}-{n}")
    }
}

/// The requested address, else the last one of this data folder, else a free one.
fn address(asked: Option<SocketAddr>, data: &DataDir) -> anyhow::Result<SocketAddr> {
    let file = data.path("run/api-port");
    if let Some(asked) = asked {
        let free = TcpListener::bind(asked)
            .and_then(|listener| listener.local_addr())
            .with_context(|| format!("failed to listen on {asked}; choose another address with --listen"))?;
        return Ok(free);
    }
    let before = std::fs::read_to_string(&file)
        .ok()
        .and_then(|text| text.trim().parse::<u16>().ok());
    let bind = |port: u16| TcpListener::bind(("127.0.0.1", port)).and_then(|listener| listener.local_addr());
    let free = before
        .and_then(|port| bind(port).ok())
        .map_or_else(|| bind(0), Ok)
        .context("failed to find a free port of 127.0.0.1")?;
    remember(&file, free.port())?;
    Ok(free)
}

fn remember(file: &Path, port: u16) -> anyhow::Result<()> {
    Ok(write_private(file, port.to_string().as_bytes())?)
}
