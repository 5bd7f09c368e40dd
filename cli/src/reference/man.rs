//! `man`: manual pages.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;

use crate::terminal::output;

/// Write the manual pages, one per command
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph man ~/.local/share/man/man1 && man ralph-submit-feature
  sudo ralph man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// The folder; created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn run(args: ManArgs, program: fn() -> clap::Command) -> anyhow::Result<ExitCode> {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder).with_context(|| format!("failed to make the folder {folder}"))?;
    // Values of this environment are private.
    let command = program().mut_args(|arg| arg.hide_env_values(true));
    clap_mangen::generate_to(command, &args.folder)
        .with_context(|| format!("failed to write the pages to {folder}"))?;
    output::text(&format!("wrote the pages to {folder}\n"))?;
    Ok(ExitCode::SUCCESS)
}
