//! Flags for waiting.

use clap::Args;

/// Whether a command waits, and whether it waits through approvals.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct WaitFlags {
    /// Wait for the run's end; the exit code is its outcome
    #[arg(long)]
    pub wait: bool,
    /// Keep waiting while a person must decide, until the run ends otherwise
    #[arg(long, requires = "wait")]
    pub through_approvals: bool,
}
