//! From the arguments to an exit code.

use std::process::ExitCode;

use clap::FromArgMatches as _;
use ralph_shared::logging::{self, LogFormat};

use super::args::{Cli, Command, command};
use super::client::ApiError;
use super::wait::Quit;
use super::{
    context, feature, hook, inbox, logs, mcp, memory, run, schedule, status, submit, task, token, worker,
};
use crate::cli::args::globals::MATCHES;
use crate::cli::args::usage::Usage;
use crate::cli::server::open;
use crate::cli::{
    cost::commands,
    logs::activity,
    reference::{completions, man, schema},
    server::{config, doctor, down, init, serve, up},
};
use crate::domain::states::RunOutcome;

/// Exit code of a command that was called wrongly.
const USAGE: u8 = 2;

/// Parses the arguments, does the command, prints what went wrong.
pub async fn main() -> ExitCode {
    let matches = MATCHES.get_or_init(|| command().get_matches());
    let mut cli = match Cli::from_arg_matches(matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    // To what serves, the file of a token is another one's; what looks at the environment tells of it itself.
    let needs_none = matches!(
        cli.command,
        Command::Serve(_)
            | Command::Up(_)
            | Command::Down(_)
            | Command::Migrate(_)
            | Command::Config(_)
            | Command::Doctor(_)
    );
    if let Err(error) = cli.globals.read_environment()
        && !needs_none
    {
        eprintln!("error: {error}");
        return ExitCode::from(USAGE);
    }
    let filter = match cli.command {
        Command::Serve(_) => "info,async_nats=warn,sqlx=warn",
        // It tells the ends of its children itself.
        Command::Up(_) => "warn,ralph_coordinator::embedded::child=error",
        _ => "warn",
    };
    logging::init(filter, LogFormat::Text);
    match dispatch(cli).await {
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

async fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let globals = &cli.globals;
    match cli.command {
        Command::Serve(args) => serve::serve(args).await,
        Command::Up(args) => up::up(globals, args).await,
        Command::Down(args) => down::run(globals, args).await,
        Command::Migrate(args) => serve::migrate(args).await,
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
        Command::Doctor(args) => doctor::run(globals, args).await,
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
        Command::Schema(args) => schema::run(args),
    }
}

/// Whoever reads our output has enough, `| head` say.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
