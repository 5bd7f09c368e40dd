//! This machine's agents and their sandbox.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ralph_shared::file;
use ralph_shared::wire::{AgentRule, DEFAULT_AGENT};

use super::agent::agent;
use super::args::MachineArgs;
use super::file::{File, places};
use super::{rules, stock};
use crate::config::values::absolute;
use crate::sandbox::{Resources, Sandbox};
use crate::session::AgentCommand;
use crate::workspace::{BulkLimits, CacheRule, FilterRule, History, KEEP_FILES_DAYS, WarmRule, is_author};
use ralph_shared::config::{AgentTable, Workspace, WorkspaceTable};

/// This machine's configuration for sessions.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its agents by name. [`DEFAULT_AGENT`] is always among them.
    pub agents: BTreeMap<String, AgentCommand>,
    /// Rules that select an agent for a session that names none.
    pub rules: Vec<AgentRule>,
    pub sandbox: Sandbox,
    /// How much of a repository is fetched.
    pub history: History,
    /// Folders that setup fills once and later checkouts reuse.
    pub caches: Vec<CacheRule>,
    /// Build output that later checkouts start with.
    pub warm: WarmRule,
    /// Disk quota of the data folder. Bytes.
    pub disk_budget_bytes: Option<u64>,
    /// How many days files of a session without a repository are stored.
    pub keep_files_days: u32,
    /// Commands that prepare a checkout.
    pub setup: Vec<String>,
    /// The command that runs when a feature is complete.
    pub on_complete: Option<String>,
    /// Author of commits: `Name <address>`.
    pub author: Option<String>,
    /// Whether landed commits are signed off.
    pub sign_off: bool,
    /// Limits above which new files are reported before they land.
    pub bulk: BulkLimits,
    pub filters: Vec<FilterRule>,
    /// Folders that agents may work in directly.
    pub dirs: Vec<PathBuf>,
    /// Folders that contain this configuration, or would be searched for it.
    pub configured_in: Vec<PathBuf>,
}

impl Machine {
    /// Combines flags, environment and file.
    pub fn load(args: MachineArgs) -> anyhow::Result<Self> {
        let file = File::read(args.config.as_deref())?;
        let configured_in = places(args.config.as_deref());
        let rules = rules::of(&file)?;
        let workspace = file.workspace;
        let resources = resources(&workspace)?;
        let history = stock::history(&workspace)?;
        let caches = stock::caches(&workspace)?;
        let warm = stock::warm(&workspace)?;
        let disk_budget_bytes = stock::disk_budget_bytes(&workspace)?;
        let bulk = stock::bulk(&workspace)?;
        if workspace.setup.iter().any(|command| command.trim().is_empty()) {
            bail!("a command of `setup` of [workspace] is empty; give each a command to run");
        }
        if let Some(author) = workspace.author.as_deref().filter(|name| !is_author(name)) {
            bail!(
                "`{author}` can't be `author` of [workspace]: give the author of commits as `Name <address>`"
            );
        }
        let passed = workspace.pass_env.into_iter();
        let passed = passed.filter_map(|name| std::env::var(&name).ok().map(|value| (name, value)));
        let mode = workspace.sandbox.map(|mode| mode.parse());
        let mode = mode.transpose().map_err(anyhow::Error::msg)?;
        let network = workspace
            .sandbox_network
            .map(|network| file::value(&network)?.parse().map_err(anyhow::Error::msg));
        let network = network.transpose().context("in [workspace]")?;
        let sandbox = Sandbox {
            mode: args.sandbox.or(mode).unwrap_or_default(),
            read: absolute(workspace.sandbox_read.into_iter().chain(args.sandbox_read))?,
            write: absolute(workspace.sandbox_write.into_iter().chain(args.sandbox_write))?,
            passed: passed.collect(),
            network: args.sandbox_network.or(network).unwrap_or_default(),
            resources,
        };
        let of_others = |key: &str| {
            let name = format!("workspace.{key}");
            Workspace::KEYS.iter().any(|other| other.name == name)
        };
        for key in workspace.unknown.keys().filter(|key| !of_others(key)) {
            tracing::warn!(key, "unknown key in [workspace], ignored");
        }
        let filters = stock::filters(file.git)?;
        let dirs = absolute(workspace.dirs.into_iter())?;
        let default = (file.agent.unwrap_or_default(), args.agent.as_deref());
        let agents = agents(file.agents, default, &args.pass_env)?;
        Ok(Self {
            agents,
            rules,
            sandbox,
            history,
            caches,
            warm,
            disk_budget_bytes,
            keep_files_days: workspace.keep_files_days.unwrap_or(KEEP_FILES_DAYS),
            setup: workspace.setup,
            on_complete: workspace.on_complete.filter(|command| !command.trim().is_empty()),
            author: workspace.author,
            sign_off: workspace.sign_off,
            bulk,
            filters,
            dirs,
            configured_in,
        })
    }

    /// The sessions that an agent gets without being named, in words. `None` if it must be named.
    pub fn rule_in_words(&self, agent: &str) -> Option<String> {
        rules::rule_in_words(&self.rules, agent)
    }
}

/// The agents of the file, and the default one with the value of `--agent`.
fn agents(
    tables: BTreeMap<String, AgentTable>,
    (default, flag): (AgentTable, Option<&str>),
    pass_env: &[String],
) -> anyhow::Result<BTreeMap<String, AgentCommand>> {
    let mut agents = BTreeMap::new();
    for (name, table) in tables {
        if name == DEFAULT_AGENT {
            bail!("[agents.{DEFAULT_AGENT}] is not read: write the default agent as [agent]");
        }
        agents.insert(name.clone(), agent(&name, None, table)?);
    }
    agents.insert(DEFAULT_AGENT.to_owned(), agent(DEFAULT_AGENT, flag, default)?);
    for agent in agents.values_mut() {
        agent.pass_env.extend(pass_env.iter().cloned());
    }
    Ok(agents)
}

fn resources(table: &WorkspaceTable) -> anyhow::Result<Resources> {
    const MIB: u64 = 1024 * 1024;
    let given = [
        ("session_memory_mb", table.session_memory_mb),
        ("session_processes", table.session_processes.map(u64::from)),
        ("session_cpu_seconds", table.session_cpu_seconds),
        ("session_file_mb", table.session_file_mb),
    ];
    if let Some((key, _)) = given.iter().find(|(_, value)| *value == Some(0)) {
        bail!("`{key}` of [workspace] is 0: no agent could start; leave it out for the default");
    }
    let default = Resources::default();
    Ok(Resources {
        memory_bytes: table.session_memory_mb.map(|mib| mib.saturating_mul(MIB)),
        processes: table.session_processes.unwrap_or(default.processes),
        cpu_seconds: table.session_cpu_seconds,
        file_bytes: table
            .session_file_mb
            .map_or(default.file_bytes, |mib| mib.saturating_mul(MIB)),
        disk_reserve_bytes: table
            .session_disk_reserve_mb
            .map_or(default.disk_reserve_bytes, |mib| mib.saturating_mul(MIB)),
    })
}

#[cfg(test)]
mod tests {
    use crate::session::RuleAnswer;
    use std::path::Path;

    use agent_client_protocol::v1::schema::ToolKind;

    use super::*;
    use crate::session::Pattern;

    fn load(file: &str) -> anyhow::Result<Machine> {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.toml");
        std::fs::write(&config, file).unwrap();
        Machine::load(MachineArgs {
            config: Some(config),
            ..MachineArgs::default()
        })
    }

    fn error(file: &str) -> String {
        format!("{:#}", load(file).unwrap_err())
    }

    #[test]
    fn commands_are_split_like_in_a_shell() {
        let machine = load("[agent]\ncommand = \"agent --mode 'a b'\"").unwrap();
        assert_eq!(machine.agents[DEFAULT_AGENT].argv, ["agent", "--mode", "a b"]);
    }

    #[test]
    fn a_relative_program_is_resolved_from_the_workers_folder() {
        let machine = load("[agent]\ncommand = \"./bin/agent ./x\"").unwrap();
        let here = std::env::current_dir().unwrap().join("bin/agent");
        assert_eq!(
            machine.agents[DEFAULT_AGENT].argv,
            [here.to_str().unwrap(), "./x"]
        );
    }

    #[test]
    fn logins_have_the_same_path_in_both_homes() {
        let machine = load("[agent]\nfiles = [\"~/.agent/login.json\"]").unwrap();
        let file = &machine.agents[DEFAULT_AGENT].files[0];
        assert_eq!(file.place, Path::new(".agent/login.json"));
        assert_eq!(
            file.original,
            std::env::home_dir().unwrap().join(".agent/login.json")
        );
    }

    #[test]
    fn the_default_agent_is_there_without_being_named() {
        let machine = load("[agent]\npass_env = [\"KEY\"]\n[agents.other]\ncommand = \"x\"").unwrap();
        assert_eq!(machine.agents[DEFAULT_AGENT].argv, ["claude-agent-acp"]);
        assert_eq!(machine.agents[DEFAULT_AGENT].pass_env, ["KEY"]);
        assert_eq!(machine.agents["other"].argv, ["x"]);
    }

    #[test]
    fn unusable_agents_are_named_with_what_to_change() {
        let check = |file: &str, expected: &str| {
            let error = error(file);
            assert!(error.contains(expected), "{error}");
        };
        check(
            "[agent]\ncommand = \"agent 'x\"",
            "the command of agent `default` has an unclosed quote: agent 'x",
        );
        check("[agents.a]\ncommand = \" \"", "the command of agent `a` is empty");
        check("[agents.a]\nenv = {}", "add `command = \"…\"` to [agents.a]");
        check(
            "[agent]\nenv = { K = \"file:/no/such/file\" }",
            "in the environment of agent `default`",
        );
        check(
            "[agent.mcp.web]\nsse = true",
            "in MCP server `web` of agent `default`: it needs either `command",
        );
        check(
            "[agent]\nfiles = [\"/etc/passwd\"]",
            "/etc/passwd is not inside the home",
        );
        check("[agent]\nfiles = [\"~/../x\"]", "is not inside the home");
        check("[agent]\nfiles = [\"~\"]", "is not inside the home");
        check(
            "[[agent.permissions]]\nanswer = \"reject\"\nkinds = [\"write\"]",
            "`write` is no kind of tool: expected one of read, edit",
        );
        check("[[agent.permissions]]\nanswer = \"no\"", "unknown variant `no`");
        check(
            "[workspace]\nsession_memory_mb = 0",
            "`session_memory_mb` of [workspace] is 0",
        );
        check("[workspace]\nsandbox = \"open\"", "`open` is no sandbox");
        check(
            "[workspace]\nsandbox_network = \"closed\"",
            "in [workspace]: `sandbox_network` names no proxy",
        );
    }

    #[test]
    fn limits_of_a_session_are_read() {
        let machine = load("[workspace]\nsession_memory_mb = 2048\nsession_cpu_seconds = 60\n").unwrap();
        let expected = Resources {
            memory_bytes: Some(2048 * 1024 * 1024),
            cpu_seconds: Some(60),
            ..Resources::default()
        };
        assert_eq!(machine.sandbox.resources, expected);
    }

    #[test]
    fn permissions_become_rules_in_their_order() {
        let machine = load(
            "[[agent.permissions]]\nanswer = \"allow\"\nkinds = [\"edit\"]\npaths = [\"docs/**\"]\n\
             [[agent.permissions]]\nanswer = \"reject\"\n",
        );
        let rules = machine.unwrap().agents[DEFAULT_AGENT].permissions.clone();
        assert_eq!(
            (rules[0].answer, rules[1].answer),
            (RuleAnswer::Allow, RuleAnswer::Reject)
        );
        assert_eq!(rules[0].kinds, [ToolKind::Edit]);
        assert_eq!(rules[0].paths, [Pattern::new("docs/**")]);
    }

    #[test]
    fn values_from_files_and_of_mcp_servers_count_as_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("value");
        std::fs::write(&file, "from-a-file\n").unwrap();
        let machine = load(&format!(
            "[agent]\nenv = {{ PLAIN = \"plain\", HIDDEN = \"file:{0}\", API_KEY = \"by-its-name\" }}\n\
             [agent.mcp.files]\ncommand = \"serve\"\nenv = {{ DB_PASSWORD = \"of-a-server\", LEVEL = \"debug\" }}\n\
             [agent.mcp.web]\nurl = \"http://127.0.0.1:1/\"\nheaders = {{ Authorization = \"Bearer of-a-header\" }}\n",
            file.display()
        ))
        .unwrap();
        let secrets = machine.agents[DEFAULT_AGENT].secrets();
        let secrets: std::collections::BTreeSet<&str> = secrets.iter().map(String::as_str).collect();
        let expected = ["by-its-name", "from-a-file", "of-a-header", "of-a-server"];
        assert_eq!(secrets.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn mcp_servers_are_converted_to_protocol_types() {
        let machine = load(
            "[agent.mcp.files]\ncommand = \"sh -c 'serve files'\"\nenv = { A = \"b\" }\n\
             [agent.mcp.web]\nurl = \"http://127.0.0.1:1/mcp\"\nheaders = { X = \"y\" }\n\
             [agent.mcp.old]\nurl = \"http://127.0.0.1:1/sse\"\nsse = true\n",
        )
        .unwrap();
        let servers = serde_json::to_value(&machine.agents[DEFAULT_AGENT].mcp_servers).unwrap();
        assert_eq!(servers[0]["name"], "files");
        assert!(
            servers[0]["command"].as_str().unwrap().ends_with("/sh"),
            "{servers}"
        );
        assert_eq!(servers[0]["args"], serde_json::json!(["-c", "serve files"]));
        assert_eq!(servers[0]["env"][0]["value"], "b");
        assert_eq!(servers[1]["type"], "sse");
        assert_eq!(servers[2]["type"], "http");
        assert_eq!(servers[2]["headers"][0]["name"], "X");
    }
}
