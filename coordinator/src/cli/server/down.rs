//! `down`: stops the `up` of a data folder.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_cli::args::globals::Globals;

use crate::embedded::datadir::{find_running, holder};

/// Pause between two checks whether everything has stopped.
const POLL: Duration = Duration::from_millis(100);

/// Stop the `up` of a data folder, in order
///
/// Running sessions get the time that `up --drain-timeout` allows. The next `up` continues the interrupted
/// work.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph-coordinator down
  ralph-coordinator down --data /srv/ralph

Exit code: 0 when it stopped, or nothing ran.")]
pub struct DownArgs {}

pub async fn run(globals: &Globals, _args: DownArgs) -> anyhow::Result<ExitCode> {
    let data = match &globals.data {
        Some(data) => Some(data.clone()),
        None => find_running(&std::env::current_dir().context("failed to find the current folder")?),
    };
    let Some((data, pid)) = data.and_then(|data| Some((data.clone(), holder(&data)?))) else {
        eprintln!("nothing runs here (--data names another data folder)");
        return Ok(ExitCode::SUCCESS);
    };
    if let Err(error) = kill(Pid::from_raw(pid), Signal::SIGTERM) {
        bail!(
            "failed to stop process {pid}, which holds {}: {error}",
            data.display()
        );
    }
    eprintln!("stopping the `up` of {}", data.display());
    while holder(&data) == Some(pid) {
        tokio::time::sleep(POLL).await;
    }
    eprintln!("stopped");
    Ok(ExitCode::SUCCESS)
}
