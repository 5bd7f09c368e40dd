//! The agents that workers started here would use, by flag and by the local `.ralph.toml`: whether their
//! programs are on this machine, and whether they are logged in. Only a worker can check that an agent
//! responds: `ralph-worker doctor`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_api::view::{Page, WorkerView};
use ralph_shared::agents::presets::{Preset, resolve};
use ralph_shared::wire::DEFAULT_AGENT;

use crate::client::Client;
use crate::config::{Config, read_table};

/// Prefix of a value that is read from a file.
const FILE: &str = "file:";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub name: String,
    /// The preset that configures it.
    pub preset: Option<&'static Preset>,
    /// The first word of its command.
    pub program: String,
    /// Path of the program; `None` if it isn't on this machine.
    pub found: Option<PathBuf>,
    /// Whether a login was found, or none is needed.
    pub logged_in: bool,
}

impl Agent {
    /// The problem and its fix, if any.
    pub fn trouble(&self) -> Option<(String, String)> {
        let Self { name, program, .. } = self;
        if self.found.is_none() {
            return Some((self.missing(), self.advice()));
        }
        let preset = self.preset.filter(|_| !self.logged_in)?;
        let title = preset.title;
        let problem = format!("no login of {title} was found for the agent `{name}` ({program})");
        Some((
            problem,
            format!("log in: {}; `ralph-worker doctor` shows details", preset.login),
        ))
    }

    fn missing(&self) -> String {
        let Self { name, program, .. } = self;
        let place = if program.contains('/') {
            "is not a program on this machine"
        } else {
            "isn't on the PATH"
        };
        format!("`{program}` {place}: workers here can't start the agent `{name}`")
    }

    fn advice(&self) -> String {
        let name = &self.name;
        let how = self
            .preset
            .map(|preset| format!(" ({})", preset.how_to_install()));
        let how = how.unwrap_or_default();
        let other = if name == DEFAULT_AGENT {
            "`up --agent AGENT`, or `preset` or `command` of [agent] in .ralph.toml".to_owned()
        } else {
            format!("`preset` or `command` of [agents.{name}] in .ralph.toml")
        };
        format!("install it{how}, or name another one with {other}; `ralph-worker doctor` shows details")
    }
}

/// The agents of workers started here; `flag` is the value of `--agent`. Skips unreadable configuration: a
/// worker reports what is wrong with it.
pub fn configured(flag: Option<&str>) -> Vec<Agent> {
    let file = Config::locate().ok().flatten();
    let table = file.and_then(|path| read_table(&path).ok()).unwrap_or_default();
    of(&table, flag, &env::var_os("PATH").unwrap_or_default())
}

fn of(file: &toml::Table, flag: Option<&str>, path: &OsStr) -> Vec<Agent> {
    let none = toml::Table::new();
    let default = file.get("agent").and_then(toml::Value::as_table).unwrap_or(&none);
    let mut agents: Vec<Agent> = agent(DEFAULT_AGENT, flag, default, path).into_iter().collect();
    let named = file.get("agents").and_then(toml::Value::as_table);
    for (name, table) in named.into_iter().flatten() {
        if let Some(table) = table.as_table() {
            agents.extend(agent(name, None, table, path));
        }
    }
    agents
}

/// An agent; `None` if its command or its own PATH can't be read here.
fn agent(name: &str, flag: Option<&str>, table: &toml::Table, path: &OsStr) -> Option<Agent> {
    let text = |key: &str| table.get(key)?.as_str();
    let (preset, command) = resolve(name, [flag, text("preset"), text("command")]).ok()?;
    let program = shell_words::split(&command).ok()?.into_iter().next()?;
    let env = table.get("env").and_then(toml::Value::as_table);
    let own = env.and_then(|env| env.get("PATH")?.as_str());
    if own.is_some_and(|own| own.starts_with(FILE)) {
        return None;
    }
    let is_set = |name: &str| {
        let passed = list(table, "pass_env").is_none_or(|passed| passed.iter().any(|passed| passed == name));
        let is_set = env::var_os(name).is_some_and(|value| !value.is_empty());
        env.is_some_and(|env| env.contains_key(name)) || passed && is_set
    };
    let logged_in = |preset: &Preset| {
        let files = list(table, "files");
        let files = files.unwrap_or_else(|| preset.files.iter().map(|&file| file.to_owned()).collect());
        preset.has_login(is_set, files.iter().map(|file| expanded(file)))
    };
    Some(Agent {
        name: name.to_owned(),
        preset,
        found: find(&program, own.map_or(path, OsStr::new)),
        program,
        logged_in: preset.is_none_or(logged_in),
    })
}

fn list(table: &toml::Table, key: &str) -> Option<Vec<String>> {
    let list = table.get(key)?.as_array()?;
    let texts = list.iter().filter_map(|text| text.as_str().map(str::to_owned));
    Some(texts.collect())
}

/// Expands `~/` to the user's home.
fn expanded(path: &str) -> PathBuf {
    let home = path.strip_prefix("~/").zip(env::home_dir());
    home.map_or_else(|| PathBuf::from(path), |(rest, home)| home.join(rest))
}

/// Finds a program as a worker started in this folder does.
fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(expanded(program)).filter(|file| is_program(file));
    }
    env::split_paths(path)
        .map(|folder| folder.join(program))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Warns if no worker has the agent, because its tasks then wait.
pub async fn warn_if_unknown(client: &Client, agent: Option<&str>) {
    let Some(agent) = agent else { return };
    let Ok(workers) = client.get::<Page<WorkerView>>("/workers").await else {
        return;
    };
    let known = |worker: &WorkerView| worker.agents.iter().any(|known| known == agent);
    if !workers.items.iter().any(known) {
        eprintln!(
            "warning: no worker has an agent `{agent}`: its tasks wait until [agents.{agent}] is in the .ralph.toml of a worker"
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ralph_shared::agents::presets::DEFAULT_PRESET;

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
    fn the_program_of_each_agent_is_searched() {
        check("", None, &[("default", "claude-agent-acp", false)]);
        check("", Some("gemini"), &[("default", "gemini", false)]);
        let presets = "[agent]\npreset = 'codex'\n[agents.qwen]\nmode = 'x'\n[agents.a]\npreset = 'b'";
        check(
            presets,
            None,
            &[("default", "codex-acp", false), ("qwen", "qwen", false)],
        );
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
    fn a_missing_program_or_login_comes_with_its_fix() {
        let check = |name: &str, table: &str, expected: [&str; 2]| {
            let table: toml::Table = table.parse().unwrap();
            let agent = agent(name, None, &table, OsStr::new("/bin")).unwrap();
            let (problem, advice) = agent.trouble().unwrap();
            assert!(
                problem.contains(expected[0]) && advice.contains(expected[1]),
                "{problem}; {advice}"
            );
        };
        check(
            DEFAULT_AGENT,
            "",
            ["`claude-agent-acp` isn't on the PATH", "npm install"],
        );
        check(DEFAULT_AGENT, "", ["default", "`up --agent AGENT`"]);
        check(
            "fast",
            "command = '/opt/fast'",
            ["`/opt/fast` is not a program", "[agents.fast]"],
        );
        let without = "command = 'sh'\npass_env = []\nfiles = []";
        check(
            "gemini",
            &format!("preset = 'gemini'\n{without}"),
            ["no login of Gemini CLI", "set GEMINI_API_KEY"],
        );
        let ready = |table: &str| {
            let table: toml::Table = format!("{without}\n{table}").parse().unwrap();
            agent("a", None, &table, OsStr::new("/bin")).unwrap().trouble()
        };
        assert_eq!(ready(""), None);
        assert_eq!(
            ready("preset = 'claude'\nenv = { ANTHROPIC_API_KEY = 'file:x' }"),
            None
        );
    }

    #[test]
    fn the_documented_default_preset_is_the_real_one() {
        let key = KEYS.iter().find(|key| key.name == "agent.preset").unwrap();
        let quoted = format!("'{DEFAULT_PRESET}'");
        assert!(matches!(key.default, Unset::Toml(text) if text == quoted));
    }
}
