//! `completions`: for the shell.

use std::io;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::args::Cli;
use super::output;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph-coordinator completions bash > ~/.local/share/bash-completion/completions/ralph-coordinator
  ralph-coordinator completions zsh > ~/.zfunc/_ralph-coordinator
  ralph-coordinator completions fish > ~/.config/fish/completions/ralph-coordinator.fish")]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Prints them.
pub fn run(args: CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    let mut command = Cli::command();
    clap_complete::generate(args.shell, &mut command, "ralph-coordinator", &mut script);
    output::text(&String::from_utf8(script).map_err(io::Error::other)?)?;
    Ok(ExitCode::SUCCESS)
}
