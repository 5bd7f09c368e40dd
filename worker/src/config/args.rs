//! Flags and their environment variables.

use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;

use crate::sandbox::{Network, SandboxMode};

/// Flags of every command that starts agents.
#[derive(Debug, Clone, Default, Args)]
pub struct MachineArgs {
    /// The agent: a preset's name (claude, codex, gemini, opencode, …) or a command, split like in a shell
    /// [default: `[agent]` of .ralph.toml, else claude]
    #[arg(long, env = "RALPH_AGENT", value_name = "AGENT")]
    pub agent: Option<String>,
    /// Variable of this environment to pass on to agents; may be given several times
    #[arg(
        long = "pass-env",
        value_name = "NAME",
        env = "RALPH_PASS_ENV",
        value_delimiter = ','
    )]
    pub pass_env: Vec<String>,
    /// Sandbox of agents: auto, landlock, bubblewrap or none [default: `[workspace] sandbox` of .ralph.toml,
    /// else auto]
    #[arg(long, env = "RALPH_SANDBOX", value_name = "MODE")]
    pub sandbox: Option<SandboxMode>,
    /// Additional file or folder that every agent may read; may be given several times
    #[arg(
        long = "sandbox-read",
        value_name = "PATH",
        env = "RALPH_SANDBOX_READ",
        value_delimiter = ','
    )]
    pub sandbox_read: Vec<PathBuf>,
    /// Additional file or folder that every agent may write; may be given several times
    #[arg(
        long = "sandbox-write",
        value_name = "PATH",
        env = "RALPH_SANDBOX_WRITE",
        value_delimiter = ','
    )]
    pub sandbox_write: Vec<PathBuf>,
    /// Network access of agents: open, none or a proxy's address [default: `[workspace] sandbox_network`,
    /// else open]
    #[arg(
        long = "sandbox-network",
        value_name = "POLICY",
        env = "RALPH_SANDBOX_NETWORK",
        hide_env_values = true
    )]
    pub sandbox_network: Option<Network>,
    /// Configuration file [default: .ralph.toml here or in a folder above]
    #[arg(long, env = "RALPH_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Flags of `ralph-worker run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Name of this worker, which stays the same across restarts [default: the machine's name]
    #[arg(long, env = "RALPH_WORKER_NAME")]
    pub name: Option<String>,
    /// How many sessions run at once; each takes an agent's memory
    #[arg(long, default_value_t = 1, env = "RALPH_SLOTS")]
    pub slots: u32,
    /// Pool to serve; may be given several times
    #[arg(long = "pool", value_name = "POOL", default_values_t = [String::from("default")])]
    pub pools: Vec<String>,
    /// Folder of this machine that agents may work in directly (`submit … --workspace dir`), with everything
    /// below it; may be given several times
    #[arg(long = "dir", value_name = "DIR", env = "RALPH_DIRS", value_delimiter = ',')]
    pub dirs: Vec<PathBuf>,
    /// The agents of this machine.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Keep the protocol's lines of every agent's sessions on this machine, readable by their owner only, as
    /// long as `keep_files_days` says [default: `protocol_log` of each agent, else no]
    #[arg(
        long,
        env = "RALPH_PROTOCOL_LOG",
        value_name = "YES|NO",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "yes",
        value_parser = BoolishValueParser::new()
    )]
    pub protocol_log: Option<bool>,
    /// Folder for mirrors, workspaces and unsettled reports
    #[arg(long, default_value = ".ralph/worker", env = "RALPH_WORKER_DATA")]
    pub data: PathBuf,
    /// Address of NATS; give one with a login only in NATS_URL, which agents can't see [default:
    /// nats://127.0.0.1:4222] [env: NATS_URL or NATS_URL_FILE]
    #[arg(long)]
    pub nats: Option<String>,
    /// Prefix of all subjects
    #[arg(long, env = "RALPH_SUBJECT_PREFIX", default_value = "ralph")]
    pub subject_prefix: String,
    /// How long running sessions may go on after SIGTERM before they are ended. Seconds
    #[arg(long, env = "RALPH_DRAIN_SECONDS", default_value_t = 60)]
    pub drain_seconds: u64,
}
