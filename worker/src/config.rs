//! What a worker is told: flags, environment, and the agents of this machine from `.ralph.toml` (SPEC 8).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use ralph_shared::subjects::{Subjects, is_label};
use serde::Deserialize;

use crate::sandbox::{Sandbox, SandboxMode};
use crate::session::AgentCommand;

/// Name of the agent that `--agent` or `[agent]` configures.
pub const DEFAULT_AGENT: &str = "default";

/// Flags of `ralph-worker run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Name of this worker, which survives restarts [default: the machine's name]
    #[arg(long, env = "RALPH_WORKER_NAME")]
    pub name: Option<String>,
    /// How many sessions run at once; each takes an agent's memory
    #[arg(long, default_value_t = 1, env = "RALPH_SLOTS")]
    pub slots: u32,
    /// Pool to serve; may be given several times
    #[arg(long = "pool", value_name = "POOL", default_values_t = [String::from("default")])]
    pub pools: Vec<String>,
    /// Command of the agent, split as a shell would [default: `[agent] command` of .ralph.toml, else claude-agent-acp]
    #[arg(long, env = "RALPH_AGENT", value_name = "CMD")]
    pub agent: Option<String>,
    /// Variable of this environment that agents get as well; may be given several times
    #[arg(
        long = "pass-env",
        value_name = "NAME",
        env = "RALPH_PASS_ENV",
        value_delimiter = ','
    )]
    pub pass_env: Vec<String>,
    /// What confines agents: auto, landlock or none [default: `[workspace] sandbox` of .ralph.toml, else auto]
    #[arg(long, env = "RALPH_SANDBOX", value_name = "MODE")]
    pub sandbox: Option<SandboxMode>,
    /// File or folder that every agent may read besides; may be given several times
    #[arg(
        long = "sandbox-read",
        value_name = "PATH",
        env = "RALPH_SANDBOX_READ",
        value_delimiter = ','
    )]
    pub sandbox_read: Vec<PathBuf>,
    /// File or folder that every agent may write besides; may be given several times
    #[arg(
        long = "sandbox-write",
        value_name = "PATH",
        env = "RALPH_SANDBOX_WRITE",
        value_delimiter = ','
    )]
    pub sandbox_write: Vec<PathBuf>,
    /// Folder for mirrors, workspaces and unsettled reports
    #[arg(long, default_value = ".ralph/worker", env = "RALPH_WORKER_DATA")]
    pub data: PathBuf,
    /// Address of NATS, with credentials
    #[arg(
        long,
        env = "NATS_URL",
        default_value = "nats://127.0.0.1:4222",
        hide_env_values = true
    )]
    pub nats: String,
    /// Prefix of all subjects
    #[arg(long, env = "RALPH_SUBJECT_PREFIX", default_value = "ralph")]
    pub subject_prefix: String,
    /// On SIGTERM, how long running sessions may go on before they are ended. Seconds
    #[arg(long, env = "RALPH_DRAIN_SECONDS", default_value_t = 60)]
    pub drain_seconds: u64,
    /// Configuration file [default: .ralph.toml here or in a folder above]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// A worker's configuration, complete and checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The worker's name.
    pub name: String,
    /// Sessions at once.
    pub slots: u32,
    /// Pools that it serves.
    pub pools: Vec<String>,
    /// Its agents by name; [`DEFAULT_AGENT`] is always there.
    pub agents: BTreeMap<String, AgentCommand>,
    /// What confines its agents.
    pub sandbox: Sandbox,
    /// Its folder.
    pub data: PathBuf,
    /// Address of the broker.
    pub nats_url: String,
    /// Names on the broker.
    pub subjects: Subjects,
    /// How long a drain waits for running sessions.
    pub drain: Duration,
}

/// The parts of `.ralph.toml` that a worker reads.
#[derive(Debug, Default, Deserialize)]
struct File {
    agent: Option<AgentTable>,
    #[serde(default)]
    agents: BTreeMap<String, AgentTable>,
    #[serde(default)]
    workspace: WorkspaceTable,
}

/// The parts of `[workspace]` that say what an agent may reach.
#[derive(Debug, Default, Deserialize)]
struct WorkspaceTable {
    sandbox: Option<String>,
    #[serde(default)]
    sandbox_read: Vec<PathBuf>,
    #[serde(default)]
    sandbox_write: Vec<PathBuf>,
}

/// `[agent]` or `[agents.NAME]`.
#[derive(Debug, Deserialize)]
struct AgentTable {
    command: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    pass_env: Vec<String>,
}

impl Config {
    /// Puts flags, environment and file together.
    ///
    /// # Errors
    /// When something can't be used, in words that say what to change.
    pub fn load(args: RunArgs) -> anyhow::Result<Self> {
        let name = match args.name {
            Some(name) => name,
            None => machine_name(),
        };
        if !is_label(&name) {
            bail!("`{name}` can't name a worker: use 1 to 40 of a-z, 0-9 and `-` (--name)");
        }
        if let Some(pool) = args.pools.iter().find(|pool| !is_label(pool)) {
            bail!("`{pool}` can't name a pool: use 1 to 40 of a-z, 0-9 and `-` (--pool)");
        }
        if args.slots == 0 {
            bail!("a worker needs at least one slot (--slots)");
        }
        let file = read_file(args.config.as_deref())?;
        let said = file.workspace.sandbox.map(|mode| mode.parse());
        let said = said.transpose().map_err(anyhow::Error::msg)?;
        let sandbox = Sandbox {
            mode: args.sandbox.or(said).unwrap_or_default(),
            read: absolute(file.workspace.sandbox_read.into_iter().chain(args.sandbox_read))?,
            write: absolute(file.workspace.sandbox_write.into_iter().chain(args.sandbox_write))?,
        };
        let mut agents = BTreeMap::new();
        for (name, table) in file.agents {
            agents.insert(name.clone(), agent(&name, table)?);
        }
        let default = match (args.agent, file.agent) {
            (Some(command), table) => {
                let (env, pass_env) = table.map(|t| (t.env, t.pass_env)).unwrap_or_default();
                AgentTable {
                    command,
                    env,
                    pass_env,
                }
            }
            (None, Some(table)) => table,
            (None, None) => AgentTable {
                command: "claude-agent-acp".to_owned(),
                env: BTreeMap::new(),
                pass_env: Vec::new(),
            },
        };
        agents.insert(DEFAULT_AGENT.to_owned(), agent(DEFAULT_AGENT, default)?);
        for agent in agents.values_mut() {
            agent.pass_env.extend(args.pass_env.iter().cloned());
        }
        Ok(Self {
            name,
            slots: args.slots,
            pools: args.pools,
            agents,
            sandbox,
            data: args.data,
            nats_url: args.nats,
            subjects: Subjects::new(&args.subject_prefix).map_err(anyhow::Error::msg)?,
            drain: Duration::from_secs(args.drain_seconds),
        })
    }
}

/// Paths from the root, whatever folder the worker was started in; `~/` is the user's home.
fn absolute(paths: impl Iterator<Item = PathBuf>) -> anyhow::Result<Vec<PathBuf>> {
    paths
        .map(|path| {
            let home = path.strip_prefix("~").ok().zip(std::env::home_dir());
            let path = home.map(|(rest, home)| home.join(rest)).unwrap_or(path);
            std::path::absolute(&path).with_context(|| format!("failed to resolve {}", path.display()))
        })
        .collect()
}

fn agent(name: &str, table: AgentTable) -> anyhow::Result<AgentCommand> {
    let argv = shell_words::split(&table.command).with_context(|| {
        format!(
            "the command of agent `{name}` has an unclosed quote: {}",
            table.command
        )
    })?;
    if argv.is_empty() {
        bail!("the command of agent `{name}` is empty");
    }
    let env = table
        .env
        .into_iter()
        .map(|(key, value)| secret_from_file(value).map(|value| (key, value)));
    let env = env
        .collect::<anyhow::Result<_>>()
        .with_context(|| format!("in the environment of agent `{name}`"))?;
    Ok(AgentCommand {
        name: name.to_owned(),
        argv,
        env,
        pass_env: table.pass_env,
    })
}

/// A value may be `file:PATH`, so that no secret stands in the configuration (SPEC 8).
fn secret_from_file(value: String) -> anyhow::Result<String> {
    match value.strip_prefix("file:") {
        None => Ok(value),
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {path}"))?;
            Ok(text.trim_end().to_owned())
        }
    }
}

fn read_file(given: Option<&Path>) -> anyhow::Result<File> {
    let path = match given {
        Some(path) => Some(path.to_owned()),
        None => std::env::current_dir().ok().and_then(|here| {
            here.ancestors()
                .map(|dir| dir.join(".ralph.toml"))
                .find(|path| path.is_file())
        }),
    };
    let Some(path) = path else {
        return Ok(File::default());
    };
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("failed to read {}", path.display()))
}

fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name
        .trim()
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    if is_label(&name) {
        name
    } else {
        "worker".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(agent: &str) -> RunArgs {
        RunArgs {
            name: Some("w".into()),
            slots: 1,
            pools: vec!["default".into()],
            agent: Some(agent.into()),
            pass_env: vec![],
            sandbox: None,
            sandbox_read: vec![],
            sandbox_write: vec![],
            data: "d".into(),
            nats: "n".into(),
            subject_prefix: "ralph".into(),
            drain_seconds: 1,
            config: None,
        }
    }

    #[test]
    fn agent_command_is_split_as_a_shell_would() {
        let config = Config::load(args("agent --mode 'a b'")).unwrap();
        assert_eq!(config.agents[DEFAULT_AGENT].argv, ["agent", "--mode", "a b"]);
    }

    #[test]
    fn unclosed_quote_is_an_error() {
        let error = Config::load(args("agent 'x")).unwrap_err().to_string();
        assert_eq!(
            error,
            "the command of agent `default` has an unclosed quote: agent 'x"
        );
    }

    #[test]
    fn unusable_names_are_refused() {
        let with = |change: fn(&mut RunArgs)| {
            let mut args = args("a");
            change(&mut args);
            Config::load(args).unwrap_err().to_string()
        };
        assert!(with(|a| a.name = Some("A b".into())).contains("--name"));
        assert!(with(|a| a.pools = vec!["x.y".into()]).contains("--pool"));
        assert!(with(|a| a.slots = 0).contains("--slots"));
    }
}
