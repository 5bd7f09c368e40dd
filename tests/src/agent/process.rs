//! The agent's process, from start to exit.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::actions::orphan;
use super::connection::{Agent, serve};
use super::environment::Environment;
use super::options::{Handshake, Options};
use super::session::Sessions;
use super::stdin::Stdin;
use super::stdout::Stdout;

/// How long last responses are still written after the input ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Runs the agent until its client disconnects or its script ends it.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if let Some(life_s) = options.orphan_launch {
        orphan::launch(life_s).context("failed to launch the orphan")?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(life_s) = options.orphan_live {
        orphan::live(Duration::from_secs(life_s));
        return Ok(ExitCode::SUCCESS);
    }
    if options.handshake == Handshake::Exit {
        anyhow::bail!("exit at once, because of --handshake exit");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let status = runtime.block_on(converse(options));
    // A write without a reader may block the runtime's thread; that must not delay the exit.
    runtime.shutdown_background();
    status
}

async fn converse(options: &Options) -> anyhow::Result<ExitCode> {
    let ended = CancellationToken::new();
    let broken = CancellationToken::new();
    let (stdin, lines) =
        Stdin::start(ended.clone(), options.ignore_eof).context("failed to read standard input")?;
    let stdout = Stdout::new(broken.clone());
    let agent = Agent {
        options: options.clone(),
        environment: Environment::read()?,
        sessions: Sessions::saved_in(options.keep_sessions.then(sessions_folder)),
        stdin: stdin.clone(),
        stdout: stdout.clone(),
    };
    // Dropped before the exit, so that running commands end too.
    let conversation = Box::pin(serve(agent, stdout.sink(), lines));
    tokio::select! {
        result = conversation => result.context("failed to converse with the client")?,
        () = gone(&stdin, ended, broken) => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn sessions_folder() -> PathBuf {
    std::env::home_dir()
        .unwrap_or_default()
        .join(".ralph-scripted-agent")
}

/// Returns when the client has disconnected, unless the agent ignores that.
async fn gone(stdin: &Stdin, ended: CancellationToken, broken: CancellationToken) {
    tokio::select! {
        () = ended.cancelled() => tokio::time::sleep(LAST_ANSWERS).await,
        () = broken.cancelled() => if stdin.ignores_eof() { std::future::pending().await },
    }
}
