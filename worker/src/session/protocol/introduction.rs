//! An agent's introduction in its handshake. Missing or malformed fields count as not offered.

use serde::Serialize;
use serde_json::Value;

use crate::session::protocol::capabilities::{Choice, Options};
use crate::session::transcript::bounded;

/// Longest stored name, id or version. Bytes.
const NAME_BYTES: usize = 200;

/// Most stored models, modes or logins.
const MOST_CHOICES: usize = 200;

/// An agent's introduction so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Introduction {
    pub name: Option<String>,
    pub version: Option<String>,
    /// The protocol version chosen by the agent.
    pub protocol_version: Option<u64>,
    /// Capabilities beyond the protocol's minimum.
    pub capabilities: Capabilities,
    pub logins: Vec<Choice>,
    /// Offers of the opened session. `None` if none was opened.
    pub session: Option<SessionOffer>,
}

/// Capabilities of an agent beyond the protocol's minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Capabilities {
    /// Resume an earlier session, with a replay of it.
    pub load: bool,
    /// Resume an earlier session without a replay.
    pub resume: bool,
    /// Read images in a prompt.
    pub image: bool,
    /// Accept audio in a prompt.
    pub audio: bool,
    /// Read files embedded in a prompt.
    pub embedded_context: bool,
    pub mcp_http: bool,
    /// Use MCP servers over server-sent events.
    pub mcp_sse: bool,
}

/// An agent's offers for a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SessionOffer {
    pub models: Vec<Choice>,
    /// Id of the model in use.
    pub model: Option<String>,
    pub modes: Vec<Choice>,
    /// Id of the mode in use.
    pub mode: Option<String>,
}

impl Introduction {
    /// Reads the answer to `initialize`.
    pub fn initialized(&mut self, answer: &Value) {
        let info = |key: &str| {
            let text = answer.get("agentInfo")?.get(key)?.as_str()?;
            Some(bounded(text, NAME_BYTES))
        };
        self.name = info("name");
        self.version = info("version");
        self.protocol_version = answer.get("protocolVersion").and_then(Value::as_u64);
        self.capabilities = Capabilities::read(answer.get("agentCapabilities").unwrap_or(&Value::Null));
        let methods = answer.get("authMethods").and_then(Value::as_array);
        self.logins = methods
            .into_iter()
            .flatten()
            .take(MOST_CHOICES)
            .filter_map(|method| {
                let id = bounded(method.get("id")?.as_str()?, NAME_BYTES);
                let name = method.get("name").and_then(Value::as_str);
                let name = name.map_or_else(|| id.clone(), |name| bounded(name, NAME_BYTES));
                Some(Choice { id, name })
            })
            .collect();
    }

    /// Records the offers of an opened session.
    pub fn opened(&mut self, models: &Options, modes: &Options) {
        let kept = |offer: &Options| offer.choices().iter().take(MOST_CHOICES).cloned().collect();
        self.session = Some(SessionOffer {
            models: kept(models),
            model: models.current().map(str::to_owned),
            modes: kept(modes),
            mode: modes.current().map(str::to_owned),
        });
    }

    /// Ids of logins that work unattended, with a key from the environment.
    pub fn unattended_logins(&self) -> Vec<String> {
        let takes_key = |login: &&Choice| {
            [&login.id, &login.name]
                .iter()
                .any(|text| text.to_lowercase().contains("key"))
        };
        self.logins
            .iter()
            .filter(takes_key)
            .map(|login| login.id.clone())
            .collect()
    }
}

impl Capabilities {
    fn read(capabilities: &Value) -> Self {
        let says = |pointer: &str| capabilities.pointer(pointer) == Some(&Value::Bool(true));
        // A capability with options of its own is an object.
        let has = |pointer: &str| {
            capabilities
                .pointer(pointer)
                .is_some_and(|value| !value.is_null() && value != &Value::Bool(false))
        };
        Self {
            load: says("/loadSession"),
            resume: has("/sessionCapabilities/resume"),
            image: says("/promptCapabilities/image"),
            audio: says("/promptCapabilities/audio"),
            embedded_context: says("/promptCapabilities/embeddedContext"),
            mcp_http: says("/mcpCapabilities/http"),
            mcp_sse: says("/mcpCapabilities/sse"),
        }
    }

    /// Names for people.
    pub fn words(&self) -> Vec<&'static str> {
        let all = [
            (self.load, "load sessions"),
            (self.resume, "resume sessions"),
            (self.image, "images"),
            (self.audio, "audio"),
            (self.embedded_context, "files in prompts"),
            (self.mcp_http, "MCP over HTTP"),
            (self.mcp_sse, "MCP over SSE"),
        ];
        all.into_iter()
            .filter(|(can, _)| *can)
            .map(|(_, words)| words)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn malformed_fields_of_an_introduction_are_ignored() {
        let mut introduction = Introduction::default();
        introduction.initialized(&json!({
            "protocolVersion": 1,
            "agentInfo": { "name": "a", "version": 7 },
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": "yes", "audio": true },
                "mcpCapabilities": 3,
                "sessionCapabilities": { "resume": {}, "list": {} },
            },
            "authMethods": [{ "id": "oauth", "name": "Browser" }, 5, { "id": "env", "name": "API key" }, { "name": "x" }],
        }));
        assert_eq!(introduction.name.as_deref(), Some("a"));
        assert_eq!(introduction.version, None);
        assert_eq!(
            introduction.capabilities.words(),
            ["load sessions", "resume sessions", "audio"]
        );
        assert_eq!(introduction.logins.len(), 2);
        assert_eq!(introduction.unattended_logins(), ["env"]);
    }

    #[test]
    fn an_empty_answer_is_an_empty_introduction() {
        for answer in [
            json!(null),
            json!([]),
            json!({ "agentCapabilities": [], "authMethods": {} }),
        ] {
            let mut introduction = Introduction::default();
            introduction.initialized(&answer);
            assert_eq!(introduction, Introduction::default(), "{answer}");
        }
    }
}
