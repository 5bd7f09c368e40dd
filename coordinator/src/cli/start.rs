//! From the arguments to an exit code.

use std::process::ExitCode;

use ralph_cli::args::Command as Client;
use ralph_cli::start::{USAGE, dispatch, exit_code, parse, run};
use ralph_shared::logging::{self, LogFormat};

use super::args::{Cli, Command, command};
use crate::cli::server::{doctor, down, serve, up};

/// Runs `ralph-coordinator`. Not async: the future of an async function is compiled again by each crate that awaits it.
pub fn main() -> ExitCode {
    run(command, run_command())
}

/// Parses the arguments, runs the command, and prints its error.
async fn run_command() -> ExitCode {
    let mut cli: Cli = parse(command);
    // Commands that serve use the token's file for another purpose, and `config` reports problems of the
    // environment itself.
    let needs_none = !matches!(&cli.command, Command::Client(client) if !matches!(client, Client::Config(_)));
    if let Err(error) = cli.globals.read_environment()
        && !needs_none
    {
        eprintln!("error: {error}");
        return ExitCode::from(USAGE);
    }
    let filter = match cli.command {
        Command::Serve(_) => "info,async_nats=warn,sqlx=warn",
        // `up` reports the ends of its children itself.
        Command::Up(_) => "warn,ralph_coordinator::embedded::child=error",
        _ => "warn",
    };
    logging::init(filter, LogFormat::Text);
    let globals = &cli.globals;
    exit_code(match cli.command {
        Command::Serve(args) => serve::serve(args).await,
        Command::Up(args) => up::up(globals, args).await,
        Command::Down(args) => down::run(globals, args).await,
        Command::Migrate(args) => serve::migrate(args).await,
        Command::Doctor(args) => doctor::run(globals, args).await,
        Command::Client(client) => dispatch(globals, client, command).await,
    })
}
