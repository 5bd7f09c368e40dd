//! Presets: built-in settings of agents that speak the Agent Client Protocol, so that a name is enough to use
//! one.
//!
//! [`PRESETS`] is the only place that knows agents by name. To add one, add an entry with the differences
//! from `PLAIN`. A key of `[agent]` or `[agents.NAME]` overrides each setting.

use std::path::PathBuf;

use crate::wire::DEFAULT_AGENT;

/// The preset of an agent that nobody configures.
pub const DEFAULT_PRESET: &str = "claude";

/// The tiers for which every preset names models, weakest first.
pub const TIERS: [&str; 3] = ["haiku", "sonnet", "opus"];

/// The built-in settings of an agent.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name in `--agent NAME` and `preset = "NAME"`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Program and arguments with which it speaks the protocol, split as a shell would.
    pub command: &'static str,
    /// How to install it: a command, or the address of instructions.
    pub install: &'static str,
    /// How to log in, as an instruction.
    pub login: &'static str,
    /// Variables, each of which can hold its login.
    pub keys: &'static [&'static str],
    /// Files below the user's home that hold its login after a manual login, as `~/…`.
    pub files: &'static [&'static str],
    /// The protocol's method of authentication, if one of `files` exists and no session opens without it.
    pub file_login: Option<&'static str>,
    /// Whether it can work without a login.
    pub works_without_login: bool,
    /// Further variables of the worker's environment that it gets.
    pub pass_env: &'static [&'static str],
    /// Variables that it always gets, with their values.
    pub env: &'static [(&'static str, &'static str)],
    /// Its mode, by id or name; `None` leaves its own default.
    pub mode: Option<&'static str>,
    /// Whether the worker offers it to read and write files through the protocol.
    pub client_files: bool,
    /// Whether the worker offers it to run commands through the protocol.
    pub client_terminals: bool,
    /// Its names of models for each of [`TIERS`], or parts of names, best first; empty if it offers no
    /// choice.
    pub models: [&'static [&'static str]; 3],
    /// A note for its users.
    pub note: Option<&'static str>,
}

const PLAIN: Preset = Preset {
    name: "",
    title: "",
    command: "",
    install: "",
    login: "",
    keys: &[],
    files: &[],
    file_login: None,
    works_without_login: false,
    pass_env: &[],
    env: &[],
    mode: None,
    client_files: true,
    client_terminals: true,
    models: CLAUDE_MODELS,
    note: None,
};

/// Models that agents with a choice of providers mostly offer.
const CLAUDE_MODELS: [&[&str]; 3] = [&["haiku"], &["sonnet"], &["opus"]];

/// Keys of providers, for agents that work with any of them.
const PROVIDER_KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "XAI_API_KEY",
    "DEEPSEEK_API_KEY",
    "MISTRAL_API_KEY",
    "GENERIC_API_KEY",
];

pub static PRESETS: &[Preset] = &[
    Preset {
        name: "claude",
        title: "Claude Code",
        command: "claude-agent-acp",
        install: "npm install --global @agentclientprotocol/claude-agent-acp",
        login: "run `claude-agent-acp --cli` and log in with /login; or set ANTHROPIC_API_KEY, or CLAUDE_CODE_OAUTH_TOKEN as \
                `claude-agent-acp --cli setup-token` gives it",
        keys: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
        ],
        files: &["~/.claude/.credentials.json"],
        pass_env: &["ANTHROPIC_BASE_URL"],
        env: &[("DISABLE_AUTOUPDATER", "1")],
        note: Some("needs Node.js 22 or later"),
        ..PLAIN
    },
    Preset {
        name: "codex",
        title: "Codex",
        command: "codex-acp",
        install: "npm install --global @agentclientprotocol/codex-acp",
        login: "run `codex login` (npm install --global @openai/codex), or set OPENAI_API_KEY or CODEX_API_KEY",
        keys: &["CODEX_API_KEY", "OPENAI_API_KEY"],
        files: &["~/.codex/auth.json"],
        pass_env: &["OPENAI_BASE_URL"],
        // `agent-full-access` of release 2, `full-access` of earlier ones.
        mode: Some("full-access"),
        models: [&["luna", "mini"], &["terra", "codex"], &["sol", "gpt-5.5"]],
        note: Some(
            "its own sandbox can't be nested in Ralph's, so it works in its mode `agent-full-access`: Ralph's sandbox confines it",
        ),
        ..PLAIN
    },
    Preset {
        name: "gemini",
        title: "Gemini CLI",
        command: "gemini --acp",
        install: "npm install --global @google/gemini-cli",
        login: "run `gemini` and log in with Google, or set GEMINI_API_KEY",
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        files: &["~/.gemini/oauth_creds.json", "~/.gemini/google_accounts.json"],
        file_login: Some("oauth-personal"),
        pass_env: &[
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_GENAI_USE_VERTEXAI",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_CLOUD_LOCATION",
        ],
        env: &[
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
            ("NO_BROWSER", "true"),
        ],
        client_files: false,
        models: [&["flash-lite"], &["flash"], &["-pro"]],
        note: Some(
            "earlier releases (0.27, say) need `command = \"gemini --experimental-acp\"`; it isn't offered files through the protocol, since \
             it can't create one then (seen with 0.61)",
        ),
        ..PLAIN
    },
    Preset {
        name: "opencode",
        title: "opencode",
        command: "opencode acp",
        install: "npm install --global opencode-ai",
        login: "run `opencode auth login`, or set your provider's key",
        keys: PROVIDER_KEYS,
        files: &["~/.local/share/opencode/auth.json"],
        works_without_login: true,
        pass_env: &["OPENCODE_CONFIG"],
        env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
        models: [
            &["haiku", "-luna", "flash-lite"],
            &["sonnet", "-terra"],
            &["opus", "-sol"],
        ],
        ..PLAIN
    },
    Preset {
        name: "qwen",
        title: "Qwen Code",
        command: "qwen --acp",
        install: "npm install --global @qwen-code/qwen-code",
        login: "run `qwen` and log in with /auth, or set OPENAI_API_KEY (and OPENAI_BASE_URL and OPENAI_MODEL of your provider)",
        keys: &[
            "OPENAI_API_KEY",
            "DASHSCOPE_API_KEY",
            "BAILIAN_CODING_PLAN_API_KEY",
        ],
        files: &["~/.qwen/oauth_creds.json", "~/.qwen/settings.json"],
        pass_env: &["OPENAI_BASE_URL", "OPENAI_MODEL"],
        models: [&["flash", "turbo"], &["plus", "coder"], &["max"]],
        note: Some("needs Node.js 22 or later"),
        ..PLAIN
    },
    Preset {
        name: "vibe",
        title: "Mistral Vibe",
        command: "vibe-acp",
        install: "uv tool install mistral-vibe",
        login: "run `vibe --setup`, or set MISTRAL_API_KEY",
        keys: &["MISTRAL_API_KEY"],
        files: &["~/.vibe/.env"],
        models: [&["small"], &["medium", "devstral"], &["large", "medium"]],
        note: Some("needs Python 3.12 or later"),
        ..PLAIN
    },
    Preset {
        name: "goose",
        title: "Goose",
        command: "goose acp",
        install: "https://block.github.io/goose",
        login: "set GOOSE_PROVIDER, GOOSE_MODEL and the provider's key; or run `GOOSE_DISABLE_KEYRING=1 goose configure`",
        keys: PROVIDER_KEYS,
        files: &["~/.config/goose/secrets.yaml", "~/.config/goose/config.yaml"],
        pass_env: &[
            "GOOSE_PROVIDER",
            "GOOSE_MODEL",
            "OPENAI_HOST",
            "ANTHROPIC_HOST",
            "OLLAMA_HOST",
        ],
        env: &[("GOOSE_DISABLE_KEYRING", "1"), ("GOOSE_MODE", "auto")],
        ..PLAIN
    },
    Preset {
        name: "copilot",
        title: "GitHub Copilot CLI",
        command: "copilot --acp",
        install: "npm install --global @github/copilot",
        login: "run `copilot login`, or set COPILOT_GITHUB_TOKEN",
        keys: &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"],
        files: &["~/.copilot/config.json"],
        models: [&["haiku", "mini"], &["sonnet"], &["opus"]],
        note: Some(
            "a login that it kept in the system's keyring can't be copied: set COPILOT_GITHUB_TOKEN then",
        ),
        ..PLAIN
    },
    Preset {
        name: "fast-agent",
        title: "fast-agent",
        command: "fast-agent serve --transport acp --shell",
        install: "uv tool install fast-agent-mcp",
        login: "set your provider's key, and FAST_AGENT_MODEL to a model of it (`sonnet`, say)",
        keys: PROVIDER_KEYS,
        pass_env: &[
            "FAST_AGENT_MODEL",
            "OPENAI_BASE_URL",
            "ANTHROPIC_BASE_URL",
            "GENERIC_BASE_URL",
        ],
        models: [&[], &[], &[]],
        note: Some(
            "needs Python 3.12 or later; it offers no models: FAST_AGENT_MODEL names the one that it uses",
        ),
        ..PLAIN
    },
    Preset {
        name: "kimi",
        title: "Kimi Code CLI",
        command: "kimi acp",
        install: "npm install --global @moonshot-ai/kimi-code",
        login: "run `kimi login`",
        keys: &["KIMI_API_KEY", "KIMI_MODEL_API_KEY"],
        files: &[
            "~/.kimi-code/credentials/kimi-code.json",
            "~/.kimi-code/config.toml",
        ],
        pass_env: &["KIMI_MODEL_NAME", "KIMI_MODEL_BASE_URL"],
        models: [&[], &[], &[]],
        note: Some("needs Node.js 22.19 or later"),
        ..PLAIN
    },
    Preset {
        name: "cline",
        title: "Cline",
        command: "cline --acp",
        install: "npm install --global cline",
        login: "run `cline auth`, or set CLINE_API_KEY",
        keys: &["CLINE_API_KEY"],
        files: &["~/.cline/data/settings/providers.json"],
        ..PLAIN
    },
    Preset {
        name: "auggie",
        title: "Auggie",
        command: "auggie --acp",
        install: "npm install --global @augmentcode/auggie",
        login: "run `auggie login`, or set AUGMENT_SESSION_AUTH",
        keys: &["AUGMENT_SESSION_AUTH", "AUGMENT_API_TOKEN"],
        files: &["~/.augment/session.json"],
        pass_env: &["AUGMENT_API_URL"],
        env: &[("AUGMENT_DISABLE_AUTO_UPDATE", "1")],
        note: Some("needs Node.js 22 or later"),
        ..PLAIN
    },
    Preset {
        name: "cursor",
        title: "Cursor CLI",
        command: "cursor-agent acp",
        install: "https://cursor.com/docs/cli/installation",
        login: "run `cursor-agent login`, or set CURSOR_API_KEY",
        keys: &["CURSOR_API_KEY", "CURSOR_AUTH_TOKEN"],
        files: &["~/.config/cursor/auth.json"],
        file_login: Some("cursor_login"),
        ..PLAIN
    },
];

/// The preset and the command of an agent: from `--agent`, else from its keys `preset` and `command`, else
/// from the preset of its name. A command that is a preset's name means the preset.
///
/// # Errors
/// If there is no such preset, or no command is known; the text says what to change.
pub fn resolve(
    agent: &str,
    [flag, preset, command]: [Option<&str>; 3],
) -> Result<(Option<&'static Preset>, String), String> {
    // The flag overrides both keys.
    let [preset, command] = match flag {
        Some(flag) => [None, Some(flag)],
        None => [preset, command],
    };
    let own = match agent {
        DEFAULT_AGENT => DEFAULT_PRESET,
        agent => agent,
    };
    let preset = match (preset, command) {
        (Some(name), _) => {
            let unknown = || format!("`{name}` is no preset: expected one of {}", Preset::names());
            Some(Preset::find(name).ok_or_else(unknown)?)
        }
        (None, Some(command)) => Preset::find(command.trim()),
        (None, None) => Preset::find(own),
    };
    let command = command.filter(|command| Preset::find(command.trim()).is_none());
    match command.or(preset.map(|preset| preset.command)) {
        Some(command) => Ok((preset, command.to_owned())),
        None => Err(format!(
            "agent `{agent}` has no command: add `command = \"…\"` to [agents.{agent}], or `preset` with one of {}",
            Preset::names()
        )),
    }
}

impl Preset {
    pub fn find(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The names of all presets, with commas between them.
    pub fn names() -> String {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        names.join(", ")
    }

    /// The agent's names of a tier's models, best first; none for a tier that isn't one of [`TIERS`].
    pub fn models_of(&self, tier: &str) -> &'static [&'static str] {
        let known = TIERS.iter().position(|known| *known == tier);
        known.map_or(&[], |at| self.models[at])
    }

    /// All variables of the worker's environment that the agent gets.
    pub fn passed(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().chain(self.pass_env).copied()
    }

    /// Whether the agent has a login, or needs none. `is_set` returns whether the agent gets a variable, and
    /// `files` are its login files, whether they exist or not.
    pub fn has_login(&self, is_set: impl Fn(&str) -> bool, files: impl IntoIterator<Item = PathBuf>) -> bool {
        self.works_without_login
            || self.keys.iter().any(|key| is_set(key))
            || files.into_iter().any(|file| file.is_file())
    }

    /// How to install it, in words.
    pub fn how_to_install(&self) -> String {
        if self.install.starts_with("https:") {
            format!("see {}", self.install)
        } else {
            format!("`{}`", self.install)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_preset_is_complete_and_has_a_unique_name() {
        let names: BTreeSet<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        assert_eq!(names.len(), PRESETS.len());
        assert!(Preset::find(DEFAULT_PRESET).is_some());
        for preset in PRESETS {
            let name = preset.name;
            assert!(crate::subjects::is_label(name), "{name}");
            for text in [preset.title, preset.command, preset.install, preset.login] {
                assert!(!text.is_empty() && !text.contains("  "), "{name}: {text}");
            }
            assert!(!preset.keys.is_empty(), "{name}");
            assert!(preset.files.iter().all(|file| file.starts_with("~/")), "{name}");
            // Its command must not be its name, which means the preset.
            assert_ne!(preset.command, name);
            let named = TIERS.map(|tier| !preset.models_of(tier).is_empty());
            assert!(named == [named[0]; 3], "{name}: {named:?}");
        }
        assert!(Preset::find("gemini").is_some_and(|gemini| gemini.models_of("huge").is_empty()));
    }

    #[test]
    fn a_login_is_a_set_key_or_an_existing_file() {
        let missing = vec![PathBuf::from("/no/such/login")];
        let has = |name: &str, key: &str, files: Vec<PathBuf>| {
            let preset = Preset::find(name).unwrap();
            preset.has_login(|name| name == key, files)
        };
        assert!(!has("claude", "OPENAI_API_KEY", missing.clone()));
        assert!(has("claude", "CLAUDE_CODE_OAUTH_TOKEN", missing.clone()));
        assert!(has("opencode", "", missing));
        assert!(has(
            "claude",
            "",
            vec![concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into()]
        ));
    }
}
