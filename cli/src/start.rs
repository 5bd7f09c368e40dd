//! From arguments to an exit code.

use std::process::ExitCode;

use clap::FromArgMatches;
use futures::future::LocalBoxFuture;
use ralph_domain::states::RunOutcome;
use ralph_shared::logging::{self, LogFormat};

use crate::args::globals::{Globals, MATCHES};
use crate::args::usage::Usage;
use crate::args::{Cli, Command, command};
use crate::client::ApiError;
use crate::cost::commands;
use crate::logs::activity;
use crate::machine::{config, init, open};
use crate::reference::{completions, man, schema};
use crate::schedule::hook;
use crate::task::context;
use crate::wait::Quit;
use crate::{feature, inbox, logs, mcp, memory, run, schedule, status, submit, task, token, worker};

/// Builds the command line of a program.
pub type Program = fn() -> clap::Command;

/// Exit code for wrong usage.
pub const USAGE: u8 = 2;

/// Completes a command line for a shell, or runs the program.
pub fn run(program: Program, main: impl Future<Output = ExitCode>) -> ExitCode {
    completions::complete(program);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: failed to start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(main);
    // A thread that waits for the terminal must not delay the exit.
    runtime.shutdown_background();
    code
}

/// Runs `ralph`. Not async: the future of an async function is compiled again by each crate that awaits it.
pub fn main() -> ExitCode {
    run(command, run_command())
}

/// Parses the arguments, runs the command, and prints its error.
async fn run_command() -> ExitCode {
    let mut cli: Cli = parse(command);
    // `config` reports errors of the environment itself.
    let needs_none = matches!(cli.command, Command::Config(_));
    if let Err(error) = cli.globals.read_environment()
        && !needs_none
    {
        eprintln!("error: {error}");
        return ExitCode::from(USAGE);
    }
    logging::init("warn", LogFormat::Text);
    exit_code(dispatch(&cli.globals, cli.command, command).await)
}

/// Parses this process's arguments.
pub fn parse<T: FromArgMatches>(program: Program) -> T {
    let matches = MATCHES.get_or_init(|| program().get_matches());
    T::from_arg_matches(matches).unwrap_or_else(|error| error.exit())
}

/// The exit code of a finished command; prints its error.
pub fn exit_code(ended: anyhow::Result<ExitCode>) -> ExitCode {
    match ended {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if error.is::<Quit>() {
                return ExitCode::from(RunOutcome::Interrupted.exit_code());
            }
            let usage = error.downcast_ref::<Usage>().is_some()
                || error.downcast_ref::<ApiError>().is_some_and(ApiError::is_usage);
            ExitCode::from(if usage { USAGE } else { 1 })
        }
    }
}

/// Runs a command of `program`. Boxed, so that only this crate compiles the commands.
///
/// # Errors
/// When the command fails, or was called wrongly.
pub fn dispatch(
    globals: &Globals,
    command: Command,
    program: Program,
) -> LocalBoxFuture<'_, anyhow::Result<ExitCode>> {
    Box::pin(dispatch_unboxed(globals, command, program))
}

async fn dispatch_unboxed(globals: &Globals, command: Command, program: Program) -> anyhow::Result<ExitCode> {
    match command {
        Command::Submit(command) => submit::run(globals, command).await,
        Command::Feature(command) => feature::run(globals, command).await,
        Command::Task(command) => task::run(globals, command).await,
        Command::Run(command) => run::run(globals, command).await,
        Command::Cost(args) => commands::cost(globals, args).await,
        Command::Budget(args) => commands::budget(globals, args).await,
        Command::Worker(command) => worker::run(globals, command).await,
        Command::Token(command) => token::run(globals, command).await,
        Command::Schedule(command) => schedule::run(globals, command).await,
        Command::Hook(command) => hook::run(globals, command).await,
        Command::Memory(command) => memory::run(globals, command).await,
        Command::Logs(args) => logs::run(globals, args).await,
        Command::Inbox(args) => inbox::run(globals, args).await,
        Command::Open(args) => open::run(globals, args).await,
        Command::Log(args) => activity::run(globals, args).await,
        Command::Status(args) => status::run(globals, args).await,
        Command::Context(args) => context::run(globals, args).await,
        Command::Mcp(args) => mcp::run(globals, args).await,
        Command::Config(args) => config::run(globals, *args).await,
        Command::Init(args) => init::run(globals, args).await,
        Command::Completions(args) => completions::run(args, program),
        Command::Man(args) => man::run(args, program),
        Command::Schema(args) => schema::run(args),
    }
}

/// Whether the reader of our output closed it, as `| head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
