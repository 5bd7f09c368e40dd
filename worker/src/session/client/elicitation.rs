//! Questions to a person. Nobody is there, so each is answered at once, and kept for whoever looks later.

use agent_client_protocol::v1::schema::{CreateElicitationResponse, ElicitationAction, Meta};
use serde_json::{Value, json};

pub const METHOD: &str = "elicitation/create";

/// What an agent is told that asks. Its prompt says the same before it begins.
pub const NOBODY: &str = "nobody is there, decide and say so";

/// The answer. The protocol has no words for why something is declined but in its extension point: a made-up value of the form
/// that was asked for could be taken for the person's.
pub fn answer() -> Value {
    let meta: Meta = [("ralph".to_owned(), json!({ "message": NOBODY }))]
        .into_iter()
        .collect();
    let response = CreateElicitationResponse::new(ElicitationAction::Decline).meta(meta);
    serde_json::to_value(response).unwrap_or_else(|_| json!({ "action": "decline" }))
}

/// What is asked, if a request asks a person: its message, and what of it can be chosen or filled in.
pub fn question(method: &str, params: &str) -> Option<String> {
    if method != METHOD {
        return None;
    }
    let asked: Value = serde_json::from_str(params).unwrap_or_default();
    let Some(message) = asked["message"]
        .as_str()
        .filter(|message| !message.trim().is_empty())
    else {
        return Some(params.to_owned());
    };
    let fields = asked["requestedSchema"]["properties"]
        .as_object()
        .into_iter()
        .flatten();
    let fields: Vec<String> = fields
        .map(|(name, field)| {
            let title = field["title"].as_str().unwrap_or(name);
            let choices = field["enum"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            let titled = field["oneOf"].as_array().into_iter().flatten();
            let titled =
                titled.filter_map(|choice| choice["title"].as_str().or_else(|| choice["const"].as_str()));
            let choices: Vec<&str> = choices.chain(titled).collect();
            match choices[..] {
                [] => title.to_owned(),
                _ => format!("{title}: {}", choices.join(" | ")),
            }
        })
        .collect();
    Some(match fields[..] {
        [] => message.to_owned(),
        _ => format!("{message} ({})", fields.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_protocols_and_says_why() {
        let expected = json!({"action": "decline", "_meta": {"ralph": {"message": NOBODY}}});
        assert_eq!(answer(), expected);
    }

    #[test]
    fn questions_are_their_message_with_what_can_be_chosen() {
        let check = |params: Value, expected: &str| {
            assert_eq!(question(METHOD, &params.to_string()).as_deref(), Some(expected));
        };
        check(
            json!({"mode": "url", "message": "Log in", "url": "https://x"}),
            "Log in",
        );
        let schema = json!({"type": "object", "properties": {
            "db": {"type": "string", "title": "Database", "enum": ["Postgres", "SQLite"]},
            "name": {"type": "string"},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l"}]},
        }});
        check(
            json!({"mode": "form", "message": "Which?", "requestedSchema": schema}),
            "Which? (Database: Postgres | SQLite, name, size: Small | l)",
        );
        check(json!({"mode": "form"}), r#"{"mode":"form"}"#);
        assert_eq!(question("fs/read_text_file", "{}"), None);
    }
}
