//! The real agents: their installation folders, and their settings for the scripted model. The presets do the
//! rest.

use std::path::{Path, PathBuf};

use super::model::Model;

/// An agent that works with a scripted model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Real {
    Claude,
    OpenCode,
    Gemini,
    Qwen,
    FastAgent,
    Codex,
    Codex016,
    Vibe,
}

/// Agents without a login: preset, installation folder, and the name in the handshake.
pub const LOCKED: [(&str, &str, &str); 7] = [
    ("codex", "codex", "@agentclientprotocol/codex-acp"),
    ("codex", "codex-0.16", "codex-acp"),
    ("vibe", "vibe", "@mistralai/mistral-vibe"),
    ("copilot", "copilot", "Copilot"),
    ("auggie", "auggie", "auggie"),
    ("cline", "cline", "cline"),
    ("kimi", "kimi", "Kimi Code CLI"),
];

impl Real {
    pub const ALL: [Self; 8] = [
        Self::Claude,
        Self::OpenCode,
        Self::Gemini,
        Self::Qwen,
        Self::FastAgent,
        Self::Codex,
        Self::Codex016,
        Self::Vibe,
    ];

    pub fn preset(self) -> &'static str {
        match self {
            Self::Codex016 => "codex",
            other => other.folder(),
        }
    }

    /// Its installation folder.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::OpenCode => "opencode",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::FastAgent => "fast-agent",
            Self::Codex => "codex",
            Self::Codex016 => "codex-0.16",
            Self::Vibe => "vibe",
        }
    }

    /// Its name in the handshake.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "@agentclientprotocol/claude-agent-acp",
            Self::OpenCode => "OpenCode",
            Self::Gemini => "gemini-cli",
            Self::Qwen => "qwen-code",
            Self::FastAgent => "fast-agent",
            Self::Codex => "@agentclientprotocol/codex-acp",
            Self::Codex016 => "codex-acp",
            Self::Vibe => "@mistralai/mistral-vibe",
        }
    }

    /// Its table in `.ralph.toml`, with only the installation and the model's address. Further files go into
    /// `folder`.
    pub fn table(self, table: &str, model: &Model, folder: &Path) -> String {
        let url = model.url();
        let v1 = format!("{url}/v1");
        let key = || "scripted".to_owned();
        let variables = match self {
            Self::Claude => vec![
                ("ANTHROPIC_BASE_URL", url),
                ("ANTHROPIC_API_KEY", key()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
                ("DISABLE_TELEMETRY", "1".to_owned()),
            ],
            Self::OpenCode => {
                let config = folder.join("opencode.json");
                std::fs::write(&config, open_code_config(&url)).unwrap();
                vec![
                    ("OPENCODE_CONFIG", config.display().to_string()),
                    ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
                ]
            }
            Self::Gemini => vec![
                ("GOOGLE_GEMINI_BASE_URL", url),
                ("GEMINI_API_KEY", key()),
                ("GEMINI_TELEMETRY_ENABLED", "false".to_owned()),
            ],
            Self::Qwen => vec![
                ("OPENAI_BASE_URL", v1),
                ("OPENAI_API_KEY", key()),
                ("OPENAI_MODEL", "scripted".to_owned()),
            ],
            Self::FastAgent => vec![
                ("GENERIC_BASE_URL", v1),
                ("GENERIC_API_KEY", key()),
                ("FAST_AGENT_MODEL", "generic.scripted".to_owned()),
            ],
            Self::Codex | Self::Codex016 => vec![
                ("CODEX_HOME", self.home(folder, &codex_config(&v1))),
                ("OPENAI_API_KEY", key()),
            ],
            Self::Vibe => vec![
                ("VIBE_HOME", self.home(folder, &vibe_config(&v1))),
                ("MISTRAL_API_KEY", key()),
            ],
        };
        let mut text = format!(
            "[{table}]\npreset = \"{}\"\n{}",
            self.preset(),
            found(table, self.folder())
        );
        for (name, value) in variables {
            text.push_str(&format!("{name} = \"{value}\"\n"));
        }
        text
    }

    /// Makes its own folder with this `config.toml`.
    fn home(self, folder: &Path, config: &str) -> String {
        let home = folder.join(format!("{}-home", self.folder()));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("config.toml"), config).unwrap();
        home.display().to_string()
    }
}

/// The lines of a table that name an agent's installation; more variables may follow.
pub fn found(table: &str, folder: &str) -> String {
    let root = std::env::var_os("RALPH_REAL_AGENTS").expect("`make test-agents` sets RALPH_REAL_AGENTS");
    let root = PathBuf::from(root);
    let own = [folder, "claude"].map(|folder| root.join(folder).join("node_modules/.bin"));
    let venv = root.join(folder).join("bin");
    let [npm, node] = own.map(|path| path.display().to_string());
    let path = format!("{npm}:{}:{node}:/usr/local/bin:/usr/bin:/bin", venv.display());
    format!("[{table}.env]\nPATH = \"{path}\"\n")
}

fn open_code_config(url: &str) -> String {
    let model = |name: &str| serde_json::json!({ "name": name, "tool_call": true });
    serde_json::json!({
        "model": "scripted/plain",
        "enabled_providers": ["scripted"],
        "provider": { "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("{url}/v1"), "apiKey": "scripted" },
            "models": { "plain": model("Plain"), "opus": model("Opus") },
        } },
    })
    .to_string()
}

fn codex_config(url: &str) -> String {
    format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\n\
         [analytics]\nenabled = false\n\n\
         [model_providers.scripted]\nname = \"Scripted\"\nbase_url = \"{url}\"\nwire_api = \"responses\"\n\
         env_key = \"OPENAI_API_KEY\"\n"
    )
}

fn vibe_config(url: &str) -> String {
    format!(
        "enable_telemetry = false\nenable_update_checks = false\n\n\
         [[providers]]\nname = \"mistral\"\napi_base = \"{url}\"\napi_key_env_var = \"MISTRAL_API_KEY\"\n\
         backend = \"mistral\"\n"
    )
}
