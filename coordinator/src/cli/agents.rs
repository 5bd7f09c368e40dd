//! The agents that workers started here would start, as far as a flag and the `.ralph.toml` here tell it, and whether their
//! programs are on this machine. Whether an agent answers, only a worker can say: `ralph-worker doctor`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_shared::requires::DEFAULT_AGENT_COMMAND;
use ralph_shared::wire::DEFAULT_AGENT;

use crate::config::{Config, read_table};

/// Begins a value that stands in a file.
const FILE: &str = "file:";
/// The package of npm that has the default agent's program.
const DEFAULT_PACKAGE: &str = "@agentclientprotocol/claude-agent-acp";

/// A configured agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// The program that its command begins with.
    pub program: String,
    /// Where that is; `None` where it isn't on this machine.
    pub found: Option<PathBuf>,
}

impl Agent {
    /// What is missing, where its program is.
    pub fn missing(&self) -> String {
        let Self { name, program, .. } = self;
        let place = if program.contains('/') {
            "is no program on this machine"
        } else {
            "isn't on the PATH"
        };
        format!("`{program}` {place}: workers here can't start the agent `{name}`")
    }

    /// What to do about it.
    pub fn advice(&self) -> String {
        let Self { name, program, .. } = self;
        let how = if program == DEFAULT_AGENT_COMMAND {
            format!(" (`npm install --global {DEFAULT_PACKAGE}`)")
        } else {
            String::new()
        };
        let other = if name == DEFAULT_AGENT {
            "`up --agent CMD`, or `command` of [agent] in .ralph.toml".to_owned()
        } else {
            format!("`command` of [agents.{name}] in .ralph.toml")
        };
        format!("install it{how}, or name another program with {other}; `ralph-worker doctor` says more")
    }
}

/// The agents of workers that are started here; `command` is what `--agent` says. What can't be read is left out: a worker says
/// what is wrong with it.
pub fn configured(command: Option<&str>) -> Vec<Agent> {
    let file = Config::locate().ok().flatten();
    let table = file.and_then(|path| read_table(&path).ok()).unwrap_or_default();
    of(&table, command, &env::var_os("PATH").unwrap_or_default())
}

fn of(file: &toml::Table, command: Option<&str>, path: &OsStr) -> Vec<Agent> {
    let default = file.get("agent").and_then(toml::Value::as_table);
    let said = default.and_then(command_of);
    let command = command.or(said).unwrap_or(DEFAULT_AGENT_COMMAND);
    let mut agents: Vec<Agent> = agent(DEFAULT_AGENT, command, default, path).into_iter().collect();
    let named = file.get("agents").and_then(toml::Value::as_table);
    for (name, table) in named.into_iter().flatten() {
        let table = table.as_table();
        if let Some(command) = table.and_then(command_of) {
            agents.extend(agent(name, command, table, path));
        }
    }
    agents
}

fn command_of(table: &toml::Table) -> Option<&str> {
    table.get("command")?.as_str()
}

/// An agent with this command, unless the command or the agent's own PATH can't be read here.
fn agent(name: &str, command: &str, table: Option<&toml::Table>, path: &OsStr) -> Option<Agent> {
    let program = shell_words::split(command).ok()?.into_iter().next()?;
    let own = table.and_then(|table| table.get("env")?.get("PATH")?.as_str());
    if own.is_some_and(|own| own.starts_with(FILE)) {
        return None;
    }
    Some(Agent {
        name: name.to_owned(),
        found: find(&program, own.map_or(path, OsStr::new)),
        program,
    })
}

/// A program as a worker finds it that is started in this folder.
fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    if let Some(rest) = program.strip_prefix("~/") {
        return env::home_dir()
            .map(|home| home.join(rest))
            .filter(|file| is_program(file));
    }
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| is_program(file));
    }
    env::split_paths(path)
        .map(|folder| folder.join(program))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::{KEYS, Unset};

    fn check(file: &str, command: Option<&str>, expected: &[(&str, &str, bool)]) {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/bin/sh", folder.path().join("here")).unwrap();
        fs::write(folder.path().join("plain"), "no program\n").unwrap();
        let table: toml::Table = file.parse().unwrap();
        let agents = of(&table, command, folder.path().as_os_str());
        let found: Vec<(&str, &str, bool)> = agents
            .iter()
            .map(|agent| (agent.name.as_str(), agent.program.as_str(), agent.found.is_some()))
            .collect();
        assert_eq!(found, expected, "{file}");
    }

    #[test]
    fn the_program_of_each_agent_is_looked_for() {
        check("", None, &[("default", DEFAULT_AGENT_COMMAND, false)]);
        check("", Some("here --acp"), &[("default", "here", true)]);
        let file = "[agent]\ncommand = 'plain'\n[agents.a]\ncommand = '/bin/sh -c x'\n[agents.b]\ncommand = \"'a b' c\"\n\
                    [agents.c]\ncommand = 'sh'\nenv = { PATH = '/bin' }\n[agents.d]\ncommand = \"'\"\n[agents.e]\nmode = 'x'";
        let with = |default: (&'static str, &'static str, bool)| {
            let others = [("a", "/bin/sh", true), ("b", "a b", false), ("c", "sh", true)];
            [vec![default], others.to_vec()].concat()
        };
        check(file, None, &with(("default", "plain", false)));
        check(file, Some("here"), &with(("default", "here", true)));
    }

    #[test]
    fn what_is_missing_is_told_with_what_to_do() {
        let agent = |name: &str, program: &str| Agent {
            name: name.to_owned(),
            program: program.to_owned(),
            found: None,
        };
        let default = agent(DEFAULT_AGENT, DEFAULT_AGENT_COMMAND);
        assert!(default.missing().contains("isn't on the PATH"));
        assert!(default.advice().contains("npm install") && default.advice().contains("--agent CMD"));
        let named = agent("fast", "/opt/fast");
        assert!(named.missing().contains("`/opt/fast` is no program"));
        assert!(named.advice().contains("[agents.fast]") && !named.advice().contains("npm"));
    }

    #[test]
    fn the_default_is_the_one_that_is_told() {
        let key = KEYS.iter().find(|key| key.name == "agent.command").unwrap();
        let quoted = format!("'{DEFAULT_AGENT_COMMAND}'");
        assert!(matches!(key.default, Unset::Toml(text) if text == quoted));
    }
}
