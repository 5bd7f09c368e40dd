//! The two agents: where they are installed, and how they are told about the model.

use std::path::{Path, PathBuf};

use super::model::Model;

/// An agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Real {
    Claude,
    OpenCode,
}

impl Real {
    /// The name that it gives in its handshake.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "@agentclientprotocol/claude-agent-acp",
            Self::OpenCode => "OpenCode",
        }
    }

    fn programs(self) -> PathBuf {
        let root = std::env::var_os("RALPH_REAL_AGENTS").expect("`make test-agents` sets RALPH_REAL_AGENTS");
        let folder = match self {
            Self::Claude => "claude",
            Self::OpenCode => "opencode",
        };
        Path::new(&root).join(folder).join("node_modules/.bin")
    }

    /// Its command line.
    pub fn command(self) -> String {
        let programs = self.programs();
        match self {
            Self::Claude => programs.join("claude-agent-acp").display().to_string(),
            Self::OpenCode => format!("{} acp", programs.join("opencode").display()),
        }
    }

    /// Its table in `.ralph.toml`, under this name. What it needs besides lies in `folder`.
    pub fn table(self, table: &str, model: &Model, folder: &Path) -> String {
        let url = model.url();
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.programs().display());
        let variables = match self {
            Self::Claude => vec![
                ("ANTHROPIC_BASE_URL", url),
                ("ANTHROPIC_API_KEY", "scripted".to_owned()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
                ("DISABLE_TELEMETRY", "1".to_owned()),
                ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ],
            Self::OpenCode => {
                let config = folder.join("opencode.json");
                std::fs::write(&config, open_code_config(&url)).unwrap();
                vec![
                    ("OPENCODE_CONFIG", config.display().to_string()),
                    ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
                    ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
                ]
            }
        };
        let mut text = format!(
            "[{table}]\ncommand = \"{}\"\n[{table}.env]\nPATH = \"{path}\"\n",
            self.command()
        );
        for (name, value) in variables {
            text.push_str(&format!("{name} = \"{value}\"\n"));
        }
        text
    }
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
