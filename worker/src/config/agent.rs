//! One agent of this machine: its preset, overridden key by key by its table in `.ralph.toml`.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use agent_client_protocol::v1::schema::ToolKind;
use anyhow::{Context as _, bail};
use ralph_shared::agents::presets::{self, Preset};

use super::mcp::mcp_server;
use crate::config::values::{absolute, split, values};
use crate::session::{AgentCommand, ClientMethods, LoginFile, Pattern, Rule, RuleAnswer};
use ralph_shared::config::{AgentTable, CostWord, PermissionAnswer, PermissionTable};

/// Longest name of an account. Bytes.
const ACCOUNT_BYTES: usize = 100;

/// Builds the agent of this name. `flag` is the value of `--agent`.
pub(super) fn agent(name: &str, flag: Option<&str>, table: AgentTable) -> anyhow::Result<AgentCommand> {
    for key in table.unknown.keys() {
        tracing::warn!(agent = name, key, "unknown key in the configuration, ignored");
    }
    let given = [flag, table.preset.as_deref(), table.command.as_deref()];
    let (preset, command) = presets::resolve(name, given).map_err(anyhow::Error::msg)?;
    if table.start_seconds == Some(0) {
        bail!(
            "`start_seconds` of agent `{name}` is 0: no agent starts in no time; leave it out for the default"
        );
    }
    let mut secrets = Vec::new();
    let mcp_servers = table.mcp.into_iter().map(|(server, table)| {
        mcp_server(&server, table, &mut secrets)
            .with_context(|| format!("in MCP server `{server}` of agent `{name}`"))
    });
    let mcp_servers = mcp_servers.collect::<anyhow::Result<_>>()?;
    let argv = argv(name, &command)?;
    let rule = |table| rule(table).with_context(|| format!("in `permissions` of agent `{name}`"));
    let permissions = table.permissions.into_iter().map(rule);
    let permissions = permissions.collect::<anyhow::Result<_>>()?;
    let env =
        values(table.env, &mut secrets).with_context(|| format!("in the environment of agent `{name}`"))?;
    let fixed = preset.map_or(&[][..], |preset| preset.env).iter();
    let fixed = fixed.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let offers = |given: Option<bool>, known: fn(&Preset) -> bool| given.unwrap_or(preset.is_none_or(known));
    Ok(AgentCommand {
        name: name.to_owned(),
        preset,
        account: account(name, table.account)?,
        argv,
        env: fixed.chain(env).collect(),
        pass_env: table.pass_env.unwrap_or_else(|| {
            let passed = preset.map(|preset| preset.passed().map(str::to_owned).collect());
            passed.unwrap_or_default()
        }),
        files: logins(table.files, preset).with_context(|| format!("in `files` of agent `{name}`"))?,
        mode: table.mode.or_else(|| preset?.mode.map(str::to_owned)),
        subscription: table.cost == Some(CostWord::None),
        models: table.models,
        offered: ClientMethods {
            files: offers(table.client_files, |preset| preset.client_files),
            terminals: offers(table.client_terminals, |preset| preset.client_terminals),
        },
        start_limit: table.start_seconds.map(Duration::from_secs),
        permissions,
        mcp_servers,
        secrets,
        protocol_log: table.protocol_log.unwrap_or_default(),
        tools: table.tools.unwrap_or(true),
    })
}

fn argv(name: &str, command: &str) -> anyhow::Result<Vec<String>> {
    let mut argv = split(&format!("agent `{name}`"), command)?;
    if argv[0].contains('/') {
        // A session runs in another folder, so the path must be absolute.
        let program = absolute([PathBuf::from(&argv[0])].into_iter())?;
        argv[0] = program[0].display().to_string();
    }
    Ok(argv)
}

/// The agent's account. Defaults to its own name.
fn account(agent: &str, given: Option<String>) -> anyhow::Result<String> {
    let Some(account) = given else {
        return Ok(agent.to_owned());
    };
    let is_name = !account.trim().is_empty() && !account.chars().any(char::is_control);
    if !is_name || account.len() > ACCOUNT_BYTES {
        bail!("`account` of agent `{agent}` names no account: use up to {ACCOUNT_BYTES} visible characters");
    }
    Ok(account)
}

fn rule(table: PermissionTable) -> anyhow::Result<Rule> {
    const KINDS: &str = "read, edit, delete, move, search, execute, think, fetch, switch_mode, other";
    let kind = |word: String| -> anyhow::Result<ToolKind> {
        let known = KINDS.split(", ").any(|known| known == word);
        let kind = serde_json::from_value(word.as_str().into());
        kind.ok()
            .filter(|_| known)
            .with_context(|| format!("`{word}` is no kind of tool: expected one of {KINDS}"))
    };
    Ok(Rule {
        kinds: table.kinds.into_iter().map(kind).collect::<anyhow::Result<_>>()?,
        paths: table.paths.iter().map(|path| Pattern::new(path)).collect(),
        answer: match table.answer {
            PermissionAnswer::Allow => RuleAnswer::Allow,
            PermissionAnswer::Reject => RuleAnswer::Reject,
            PermissionAnswer::Ask => RuleAnswer::Ask,
        },
    })
}

/// Login files, whose paths are equal below the user's home and the agent's: the configured ones, otherwise
/// the preset's.
fn logins(named: Option<Vec<PathBuf>>, preset: Option<&Preset>) -> anyhow::Result<Vec<LoginFile>> {
    let optional = named.is_none();
    let files = named.unwrap_or_else(|| {
        let known = preset.map_or(&[][..], |preset| preset.files);
        known.iter().map(PathBuf::from).collect()
    });
    let Some(home) = std::env::home_dir().filter(|_| !files.is_empty()) else {
        return Ok(Vec::new());
    };
    let file = |original: PathBuf| {
        let place = original.strip_prefix(&home).map(Path::to_owned);
        let plain = |place: &PathBuf| {
            let mut parts = place.components();
            parts.clone().next().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
        };
        match place.ok().filter(plain) {
            Some(place) => Ok(LoginFile {
                original,
                place,
                optional,
            }),
            None => bail!(
                "{} is not inside the home of the worker's user: write `~/…`",
                original.display()
            ),
        }
    };
    absolute(files.into_iter())?.into_iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use ralph_shared::wire::DEFAULT_AGENT;

    use super::*;

    fn read(name: &str, flag: Option<&str>, table: &str) -> Result<AgentCommand, String> {
        agent(name, flag, toml::from_str(table).unwrap()).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_presets_name_sets_all_its_values() {
        let gemini = read(DEFAULT_AGENT, Some("gemini"), "").unwrap();
        assert_eq!(gemini.argv, ["gemini", "--acp"]);
        assert_eq!(gemini.preset, Preset::find("gemini"));
        assert!(gemini.pass_env.contains(&"GEMINI_API_KEY".to_owned()));
        assert_eq!(gemini.files[0].place, Path::new(".gemini/oauth_creds.json"));
        assert!(gemini.files.iter().all(|file| file.optional));
        assert_eq!((gemini.offered.files, gemini.offered.terminals), (false, true));
        assert_eq!(gemini.env["GEMINI_CLI_TRUST_WORKSPACE"], "true");
        for (name, flag, table) in [
            ("gemini", None, ""),
            ("x", None, "preset = 'gemini'"),
            ("x", None, "command = 'gemini'"),
            (DEFAULT_AGENT, Some("gemini"), "preset = 'codex'"),
        ] {
            let same = read(name, flag, table).unwrap();
            assert_eq!(
                (&same.argv, same.preset),
                (&gemini.argv, gemini.preset),
                "{name} {table}"
            );
        }
        let codex = read("codex", None, "").unwrap();
        assert_eq!(codex.mode.as_deref(), Some("full-access"));
        assert_eq!(read(DEFAULT_AGENT, None, "").unwrap().argv, ["claude-agent-acp"]);
    }

    #[test]
    fn each_key_of_a_table_overrides_the_presets() {
        let table = "preset = 'gemini'\ncommand = 'npx x --acp'\npass_env = ['K']\nfiles = ['~/.a']\nmode = 'yolo'\n\
                     client_files = true\nclient_terminals = false\nstart_seconds = 7\nmodels = { opus = ['m'] }\n\
                     env = { NO_BROWSER = 'false', A = 'b' }\ncost = 'none'";
        let own = read("x", None, table).unwrap();
        assert_eq!(own.argv, ["npx", "x", "--acp"]);
        assert_eq!(
            (own.pass_env, own.mode.as_deref()),
            (vec!["K".to_owned()], Some("yolo"))
        );
        assert_eq!((own.files.len(), own.files[0].optional), (1, false));
        assert_eq!((own.offered.files, own.offered.terminals), (true, false));
        assert_eq!(own.start_limit, Some(Duration::from_secs(7)));
        assert!(own.subscription && !read("x", Some("gemini"), "").unwrap().subscription);
        assert_eq!(own.models["opus"], ["m"]);
        let env = [
            &own.env["NO_BROWSER"],
            &own.env["A"],
            &own.env["GEMINI_CLI_TRUST_WORKSPACE"],
        ];
        assert_eq!(env, ["false", "b", "true"]);
    }

    #[test]
    fn any_other_command_line_uses_no_preset() {
        for (flag, table) in [
            (Some("gemini --experimental-acp"), "preset = 'codex'\nmode = 'm'"),
            (None, "command = '/opt/codex'\nmode = 'm'"),
        ] {
            let plain = read(DEFAULT_AGENT, flag, table).unwrap();
            assert_eq!(
                (plain.preset, plain.mode.as_deref()),
                (None, Some("m")),
                "{table}"
            );
            assert!(plain.pass_env.is_empty() && plain.files.is_empty() && plain.env.is_empty());
            assert_eq!(plain.offered, ClientMethods::default());
        }
    }

    #[test]
    fn unusable_agents_are_errors() {
        let check = |table: &str, expected: &str| {
            let error = read("x", None, table).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(
            "preset = 'claud'",
            "`claud` is no preset: expected one of claude, codex, gemini",
        );
        check("mode = 'm'", "add `command = \"…\"` to [agents.x], or `preset`");
        check(
            "command = 'x'\nstart_seconds = 0",
            "`start_seconds` of agent `x` is 0",
        );
    }
}
