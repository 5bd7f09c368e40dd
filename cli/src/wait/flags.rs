//! How long a command waits.

use clap::Args;

/// Whether a command waits, and through what.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct WaitFlags {
    /// Wait for the run's end; the exit code tells its outcome
    #[arg(long)]
    pub wait: bool,
    /// Wait on while something waits for a person, until the run ends otherwise
    #[arg(long, requires = "wait")]
    pub through_approvals: bool,
}
