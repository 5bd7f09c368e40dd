//! The command line of `ralph-worker`.

use std::process::ExitCode;

use ralph_shared::terminal::Paint;

use crate::chat::{self, ChatArgs};
use crate::config::{Config, RunArgs};
use crate::doctor::{self, DoctorArgs, Output, Status};
use crate::home;
use crate::instance;
use crate::mcp;
use crate::sandbox::Sandbox;
use crate::session;
use crate::signals;
use crate::workspace::free_dir;
use clap::{Parser, Subcommand};
use clap_complete::{CompleteEnv, Shell};
use ralph_shared::agents::requires::DRAINED_STATUS;
use ralph_shared::command_line::{registration, without_empty_variables};
use ralph_shared::logging::{self, LogFormat};
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
    /// Take work from pools until stopped
    #[command(after_help = "Examples:\n  ralph-worker run --slots 4\n  \
        NATS_URL=nats://worker:secret@broker:4222 ralph-worker run --pool gpu --agent 'gemini --experimental-acp'")]
    Run(Box<RunArgs>),
    /// Start each agent, open a session with it, and report what is missing on this machine
    #[command(
        after_help = "Exits with 0 when work could be done, with 1 when something is missing.\n\nExamples:\n  \
        ralph-worker doctor\n  ralph-worker doctor --agent 'opencode acp'\n  \
        ralph-worker doctor --nats nats://broker:4222 --output json\n  \
        ralph-worker doctor --repo . --gate 'cargo test'"
    )]
    Doctor(Box<DoctorArgs>),
    /// Chat with an agent at the terminal, in the same sandbox as for work
    #[command(
        after_help = "The agent works directly in the folder, and asks for permissions at the terminal.\n\n\
        Examples:\n  ralph-worker chat\n  ralph-worker chat ~/my-project --name gemini --model pro\n  \
        ralph-worker chat --read-only\n  echo 'What is this?' | ralph-worker chat --read-only"
    )]
    Chat(Box<ChatArgs>),
    /// Print completions for a shell
    #[command(
        after_help = "Example:\n  ralph-worker completions bash > ~/.local/share/bash-completion/completions/ralph-worker"
    )]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Free a folder that is still held by the session of a dead worker (`--workspace dir`)
    #[command(
        after_help = "Only if no process works there any more: a dead worker ends its leftover processes as soon as it is started \
        again, and frees the folder itself.\n\nExample:\n  ralph-worker free ~/notes"
    )]
    Free {
        /// Folder to free
        #[arg(value_name = "DIR")]
        dir: std::path::PathBuf,
    },
    /// Connect an agent to the tools of its session
    #[command(
        hide = true,
        after_help = "Example, as started by an agent:
  ralph-worker mcp"
    )]
    Mcp,
}

pub fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        // Prints the error with its causes on one line. The place in this program is useless to its caller.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let command = || without_empty_variables(<Cli as clap::CommandFactory>::command());
    // A shell may ask for completions.
    CompleteEnv::with_factory(command).complete();
    let cli = <Cli as clap::FromArgMatches>::from_arg_matches(&command().get_matches())
        .unwrap_or_else(|error| error.exit());
    let default_filter = match cli.command {
        Command::Run(_) => "info,async_nats=warn",
        Command::Doctor(_)
        | Command::Chat(_)
        | Command::Completions { .. }
        | Command::Free { .. }
        | Command::Mcp => "warn,async_nats=off",
    };
    logging::init(default_filter, LogFormat::Text);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Run(args) => work(*args).await,
            Command::Chat(args) => chat::chat(*args).await,
            Command::Doctor(args) => examine(&args).await,
            Command::Completions { shell } => {
                print!("{}", registration(&shell.to_string(), "ralph-worker")?);
                Ok(ExitCode::SUCCESS)
            }
            Command::Free { dir } => free(&dir),
            Command::Mcp => {
                mcp::pipe::run().await?;
                // A read of standard input may be under way, and nothing else can end it.
                std::process::exit(0);
            }
        }
    })
}

fn free(dir: &std::path::Path) -> anyhow::Result<ExitCode> {
    match free_dir(dir)? {
        Some(holder) => println!("{} is free; it was held by {holder}", dir.display()),
        None => println!("{} was not held by anybody", dir.display()),
    }
    Ok(ExitCode::SUCCESS)
}

async fn work(args: RunArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(args)?;
    log_sandbox(&config.machine.sandbox)?;
    let shutdown = CancellationToken::new();
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = shutdown.clone();
    let data = config.data.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {} _ = interrupt.recv() => {} }
        token.cancel();
        tokio::select! { _ = term.recv() => {} _ = interrupt.recv() => {} }
        tracing::warn!("second signal: exiting at once");
        session::start_no_more();
        // Running sessions are not reported, but no agent may outlive its worker.
        let killed = home::noted_live(&data)
            .iter()
            .map(|dispatch| session::kill_leftovers(dispatch))
            .sum::<usize>();
        tracing::warn!(killed, "processes of running sessions are killed");
        std::process::exit(130);
    });
    let drained_by_order = instance::run::run(config, shutdown).await?;
    // A service manager recognizes by this status a worker that must not be restarted.
    let status: Option<u8> = std::env::var(DRAINED_STATUS)
        .ok()
        .and_then(|status| status.parse().ok());
    Ok(status
        .filter(|_| drained_by_order)
        .map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Logs gaps in the sandbox at the start. Fails if a required sandbox is missing.
fn log_sandbox(sandbox: &Sandbox) -> anyhow::Result<()> {
    let part = doctor::sandbox(sandbox);
    match part.status {
        Status::Missing => anyhow::bail!("{}", part.found),
        Status::Warning => tracing::warn!(by = part.found, "agents are not fully confined"),
        Status::Ok => tracing::info!(by = part.found, "agents are confined"),
    }
    for detail in part.details {
        tracing::info!("{detail}");
    }
    if let Some(advice) = part.advice {
        tracing::warn!("{advice}");
    }
    Ok(())
}

async fn examine(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    if let Some(port) = args.inside {
        doctor::try_all(port)?;
        return Ok(ExitCode::SUCCESS);
    }
    let end = signals::on(&[
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ])?;
    let findings = doctor::examine(args, end.clone()).await?;
    if end.borrow().is_some() {
        return Ok(ExitCode::from(130));
    }
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&findings)?),
        Output::Text => {
            print!("{}", doctor::page(&findings, Paint::stdout()));
        }
    }
    Ok(if findings.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_consistent_and_every_command_has_an_example() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string);
            assert!(
                help.unwrap_or_default().contains("\n  ralph-worker "),
                "`{} --help` has no example",
                command.get_name()
            );
        }
    }

    /// The help of every command, without values from the environment.
    #[test]
    fn help_texts() {
        let mut command = Cli::command();
        command.build();
        let commands = std::iter::once(command.clone()).chain(command.get_subcommands().cloned());
        let texts: Vec<String> = commands
            .filter(|command| command.get_name() != "help")
            .map(|command| {
                let mut command = command.mut_args(|arg| arg.hide_env_values(true)).term_width(100);
                let name = command.get_name().to_owned();
                format!("━━━ {name} --help\n{}\n", command.render_long_help())
            })
            .collect();
        insta::assert_snapshot!(texts.concat());
    }
}
