//! Flags of `ralph-worker chat`, and their session.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Access, ModelChoice, SessionLimits};
use tempfile::TempDir;

use super::data_folder;
use crate::config::{DEFAULT_AGENT, Machine, MachineArgs};
use crate::sandbox::Sandbox;
use crate::session::{AgentCommand, Resume, SessionSpec};

/// A person may think for long. Milliseconds.
const LIMIT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// Most bytes that an agent may send.
const OUTPUT_BYTES: u64 = 256 * 1024 * 1024;

/// Time from a cancel until an agent that ignores it is ended. Milliseconds.
const GRACE_MS: u64 = 10_000;

/// Flags of `ralph-worker chat`.
#[derive(Debug, Clone, Args)]
pub struct ChatArgs {
    /// Folder to work in
    #[arg(default_value = ".", value_name = "DIR")]
    pub folder: PathBuf,
    /// Agent: NAME of `[agents.NAME]` in .ralph.toml
    #[arg(long, default_value = DEFAULT_AGENT, value_name = "NAME")]
    pub name: String,
    /// Model of the agent, by its id or name
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Mode of the agent, by its id or name [default: `mode` of .ralph.toml]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Forbid the agent to write
    #[arg(long)]
    pub read_only: bool,
    /// Answer permission requests by the configuration's rules, without asking
    #[arg(long)]
    pub yes: bool,
    /// File with the agent's first prompt
    #[arg(long, value_name = "FILE")]
    pub instructions: Option<PathBuf>,
    /// File for the agent's text when the session is over
    #[arg(long, value_name = "FILE")]
    pub text_out: Option<PathBuf>,
    /// Resume an earlier session, if the agent can
    #[arg(long, value_name = "SESSION")]
    pub resume: Option<String>,
    /// Don't say how to resume: the folder will be gone
    #[arg(long, hide = true)]
    pub once: bool,
    /// The agent's private HOME, kept for --resume [default: below $XDG_DATA_HOME/ralph/chat]
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// The agents of this machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}

impl ChatArgs {
    /// The session, and a temporary folder to hold as long as the session runs.
    pub fn session(&self) -> anyhow::Result<(SessionSpec, TempDir)> {
        let (agent, sandbox) = self.agent()?;
        let unfound = || format!("failed to find the folder {}", self.folder.display());
        let cwd = self.folder.canonicalize().with_context(unfound)?;
        let home = match &self.home {
            Some(home) => std::path::absolute(home)?,
            None => data_home()?.join("ralph/chat").join(&self.name),
        };
        make_private(&home)?;
        let tmp = tempfile::tempdir().context("failed to make a temporary folder")?;
        if let Some(data) = data_folder::inside(&cwd) {
            if data_folder::is_confined(&sandbox) {
                bail!("{}", data_folder::words(&data));
            }
            // The person chose to run without a sandbox.
            eprintln!("ralph-worker: {}", data_folder::words(&data));
        }
        let spec = SessionSpec {
            dispatch: DispatchId::new().0.to_string(),
            agent,
            cwd,
            home,
            tmp: tmp.path().to_owned(),
            session_folder: None,
            resume: self.resume.clone().map(|session| Resume {
                session,
                or_new: true,
            }),
            after_exit: None,
            prompt: String::new(),
            model: self.model.as_ref().map(|model| ModelChoice {
                tier: model.clone(),
                names: Vec::new(),
                by_default: true,
            }),
            access: if self.read_only {
                Access::ReadOnly
            } else {
                Access::Workspace
            },
            sandbox,
            read: Vec::new(),
            tariff: Default::default(),
            allowance: Arc::default(),
            people: None,
            tool_sigils: None,
            place: None,
            protocol_log: None,
            limits: SessionLimits {
                session_ms: LIMIT_MS,
                idle_ms: LIMIT_MS,
                output_bytes: OUTPUT_BYTES,
                tool_calls: u32::MAX,
                grace_ms: GRACE_MS,
            },
            env: BTreeMap::new(),
        };
        Ok((spec, tmp))
    }

    fn agent(&self) -> anyhow::Result<(AgentCommand, Sandbox)> {
        let Machine {
            mut agents,
            mut sandbox,
            ..
        } = Machine::load(self.machine.clone())?;
        // The folder is the person's own, however full their disk is.
        sandbox.resources.disk_reserve_bytes = 0;
        let known = agents.keys().cloned().collect::<Vec<_>>().join(", ");
        let Some(mut agent) = agents.remove(&self.name) else {
            bail!(
                "there is no agent `{0}`, only {known}; add [agents.{0}] to .ralph.toml",
                self.name
            );
        };
        agent.mode = self.mode.clone().or(agent.mode);
        Ok((agent, sandbox))
    }
}

fn data_home() -> anyhow::Result<PathBuf> {
    if let Some(data) = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from)
        && data.is_absolute()
    {
        return Ok(data);
    }
    let home = std::env::home_dir().context("HOME is not set: give the agent's home with --home")?;
    Ok(home.join(".local/share"))
}

fn make_private(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))
}
