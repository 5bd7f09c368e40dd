//! The agents: where they are installed, and how each is told about the model. All else its preset knows.

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
}

/// Agents that nobody can log in to here: their preset, the folder that they are installed in, and the name that they give.
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
    pub const ALL: [Self; 5] = [
        Self::Claude,
        Self::OpenCode,
        Self::Gemini,
        Self::Qwen,
        Self::FastAgent,
    ];

    /// Its preset, which its folder is called by as well.
    pub fn preset(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::OpenCode => "opencode",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::FastAgent => "fast-agent",
        }
    }

    /// The name that it gives in its handshake.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "@agentclientprotocol/claude-agent-acp",
            Self::OpenCode => "OpenCode",
            Self::Gemini => "gemini-cli",
            Self::Qwen => "qwen-code",
            Self::FastAgent => "fast-agent",
        }
    }

    /// Its table in `.ralph.toml`, under this name, with nothing but where it is installed and where the model is. What it needs
    /// besides lies in `folder`.
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
        };
        let mut text = format!(
            "[{table}]\npreset = \"{}\"\n{}",
            self.preset(),
            found(table, self.preset())
        );
        for (name, value) in variables {
            text.push_str(&format!("{name} = \"{value}\"\n"));
        }
        text
    }
}

/// The lines of a table that say where an agent is installed; more variables may follow.
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
