//! Questions to a person by the protocol. A session without people declines each question at once and records
//! it for later readers.

use agent_client_protocol::v1::schema::{CreateElicitationResponse, ElicitationAction, Meta};
use ralph_shared::sigil::Question;
use serde_json::{Map, Value, json};

use crate::session::people::Reply;

pub const METHOD: &str = "elicitation/create";

/// The answer to an agent that asks when nobody is there. Its prompt says the same before it begins.
pub const NOBODY: &str = "nobody is there, decide and say so";

/// A question: a message and its form field, if an answer can fill one in.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    pub question: Question,
    /// The field that an answer fills in. `None` if the form has no field or several.
    field: Option<Field>,
}

#[derive(Debug, Clone, PartialEq)]
struct Field {
    name: String,
    /// JSON type in the schema.
    kind: String,
    /// Title and value of each choice.
    choices: Vec<(String, Value)>,
}

/// The answer to a question that nobody answers. The protocol carries a reason only in its extension point
/// (`_meta`): a made-up value in the form could be taken for the person's.
pub fn declined(why: &str) -> Value {
    let meta: Meta = [("ralph".to_owned(), json!({ "message": why }))]
        .into_iter()
        .collect();
    let response = CreateElicitationResponse::new(ElicitationAction::Decline).meta(meta);
    serde_json::to_value(response).unwrap_or_else(|_| json!({ "action": "decline" }))
}

/// The answer to the agent after people were asked, and its text for the transcript.
pub fn answer(form: &Form, reply: Reply) -> (Value, String) {
    match reply {
        Reply::Decide(_) | Reply::Unanswered => (declined(NOBODY), format!("declined: {NOBODY}")),
        Reply::Answered(words) => {
            let text = format!("{} answered: {}", words.by, words.text);
            let answer = match form.content(&words.text) {
                Some(content) => json!({ "action": "accept", "content": content }),
                // The reply doesn't fit the form, but the agent can still read it.
                None => declined(&text),
            };
            (answer, text)
        }
    }
}

/// The answer to a question that was open when its turn was cancelled.
pub fn cancelled() -> Value {
    json!({ "action": "cancel" })
}

impl Form {
    /// Reads a request. `None` for a request without a message or with a URL instead of a form.
    pub fn read(params: &str) -> Option<Self> {
        let asked: Value = serde_json::from_str(params).ok()?;
        if asked["mode"] == "url" {
            return None;
        }
        let message = asked["message"].as_str();
        let message = message.filter(|message| !message.trim().is_empty())?;
        let properties = asked["requestedSchema"]["properties"].as_object();
        let mut fields: Vec<Field> = properties.into_iter().flatten().map(Field::read).collect();
        if let [one] = &fields[..] {
            let titles = one.choices.iter().map(|(title, _)| title.as_str());
            let question = Question::new(message, titles)?;
            return Some(Self {
                question,
                field: fields.pop(),
            });
        }
        Some(Self {
            question: Question::new(&question(params), [""; 0])?,
            field: None,
        })
    }

    fn content(&self, answer: &str) -> Option<Map<String, Value>> {
        let field = self.field.as_ref()?;
        let answer = answer.trim();
        let value = if field.choices.is_empty() {
            match field.kind.as_str() {
                "string" => answer.into(),
                "integer" => answer.parse::<i64>().ok()?.into(),
                "number" => answer.parse::<f64>().ok()?.into(),
                "boolean" => match answer.to_lowercase().as_str() {
                    "yes" | "true" => true.into(),
                    "no" | "false" => false.into(),
                    _ => return None,
                },
                _ => return None,
            }
        } else {
            let chosen = self.question.choice(answer)?;
            let choice = field.choices.iter().find(|(title, _)| title == chosen)?;
            choice.1.clone()
        };
        Some(Map::from_iter([(field.name.clone(), value)]))
    }
}

impl Field {
    fn read((name, schema): (&String, &Value)) -> Self {
        let plain = schema["enum"].as_array().into_iter().flatten();
        let plain = plain.filter_map(|value| Some((value.as_str()?.to_owned(), value.clone())));
        let titled = schema["oneOf"].as_array().into_iter().flatten();
        let titled = titled.filter_map(|choice| {
            let value = choice.get("const")?;
            let title = choice["title"].as_str().or_else(|| value.as_str())?;
            Some((title.to_owned(), value.clone()))
        });
        Self {
            name: name.clone(),
            kind: schema["type"].as_str().unwrap_or_default().to_owned(),
            choices: plain.chain(titled).collect(),
        }
    }
}

/// The text of a request: its message, its fields and their choices.
pub fn question(params: &str) -> String {
    let asked: Value = serde_json::from_str(params).unwrap_or_default();
    let Some(message) = asked["message"]
        .as_str()
        .filter(|message| !message.trim().is_empty())
    else {
        return params.to_owned();
    };
    let fields = asked["requestedSchema"]["properties"].as_object();
    let fields = fields.into_iter().flatten().map(|(name, schema)| {
        let title = schema["title"].as_str().unwrap_or(name);
        let choices = Field::read((name, schema)).choices;
        let choices: Vec<&str> = choices.iter().map(|(title, _)| title.as_str()).collect();
        match choices[..] {
            [] => title.to_owned(),
            _ => format!("{title}: {}", choices.join(" | ")),
        }
    });
    let fields: Vec<String> = fields.collect();
    match fields[..] {
        [] => message.to_owned(),
        _ => format!("{message} ({})", fields.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ralph_shared::ids::DispatchId;
    use ralph_shared::wire::Words;

    use super::*;

    #[test]
    fn a_declined_question_carries_its_reason() {
        let expected = json!({"action": "decline", "_meta": {"ralph": {"message": NOBODY}}});
        assert_eq!(declined(NOBODY), expected);
    }

    #[test]
    fn a_question_shows_its_message_fields_and_choices() {
        let check = |params: Value, expected: &str| assert_eq!(question(&params.to_string()), expected);
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
    }

    #[test]
    fn an_answer_fills_in_a_form_of_one_field_or_declines_with_its_text() {
        let check = |properties: Value, reply: &str, content: Option<Value>| {
            let asked = json!({"message": "Which?", "requestedSchema": {"properties": properties}});
            let form = Form::read(&asked.to_string()).unwrap();
            let words = Words {
                id: uuid::Uuid::nil(),
                dispatch: DispatchId::new(),
                question: None,
                by: "ann".to_owned(),
                text: reply.to_owned(),
                prompt: String::new(),
            };
            let answer = answer(&form, Reply::Answered(words)).0;
            match content {
                Some(content) => assert_eq!(answer, json!({"action": "accept", "content": content})),
                None => assert_eq!(answer, declined(&format!("ann answered: {reply}"))),
            }
        };
        let choices = json!({"db": {"type": "string", "enum": ["Postgres", "SQLite"]}});
        check(choices.clone(), "postgres", Some(json!({"db": "Postgres"})));
        check(choices.clone(), "2", Some(json!({"db": "SQLite"})));
        check(choices, "neither", None);
        let titled = json!({"n": {"type": "integer", "oneOf": [{"const": 3, "title": "Three"}]}});
        check(titled, "three", Some(json!({"n": 3})));
        check(
            json!({"n": {"type": "string"}}),
            " any ",
            Some(json!({"n": "any"})),
        );
        check(json!({"n": {"type": "boolean"}}), "yes", Some(json!({"n": true})));
        check(json!({"n": {"type": "integer"}}), "1.5", None);
        check(
            json!({"a": {"type": "string"}, "b": {"type": "string"}}),
            "x",
            None,
        );
        check(json!({}), "x", None);
        assert_eq!(Form::read(r#"{"mode":"url","message":"Log in"}"#), None);
        assert_eq!(Form::read(r#"{"message":" "}"#), None);
        assert_eq!(Form::read("[]"), None);
    }
}
