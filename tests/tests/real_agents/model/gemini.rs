//! `POST …/models/MODEL:generateContent`, streamed or not.

use serde_json::{Value, json};

use super::script::{Message, Saying};
use super::tools::Tool;

pub fn messages(body: &Value) -> Vec<Message> {
    let messages = body["contents"].as_array().into_iter().flatten();
    messages
        .map(|message| {
            let parts = || message["parts"].as_array().into_iter().flatten();
            let texts: Vec<&str> = parts().filter_map(|part| part["text"].as_str()).collect();
            Message {
                text: match message["role"].as_str() {
                    None | Some("user") => texts.join("\n"),
                    _ => String::new(),
                },
                results: parts().filter(|part| !part["functionResponse"].is_null()).count(),
            }
        })
        .collect()
}

pub fn tools(body: &Value) -> Vec<Tool> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let declared = tools.flat_map(|tool| tool["functionDeclarations"].as_array().into_iter().flatten());
    declared
        .filter_map(|function| {
            let schemas = [&function["parametersJsonSchema"], &function["parameters"]];
            let schema = schemas.into_iter().find(|schema| schema.is_object());
            Some(Tool {
                name: function["name"].as_str()?.to_owned(),
                schema: schema.cloned().unwrap_or_default(),
            })
        })
        .collect()
}

pub fn error(status: u16) -> Value {
    json!({ "error": { "code": status, "message": format!("scripted {status}"), "status": "SCRIPTED" } })
}

pub fn whole(saying: &Saying, model: &str, (input, output): (u64, u64)) -> Value {
    let part = match saying {
        Saying::Text(text) => json!({ "text": text }),
        Saying::Call { tool, arguments } => json!({ "functionCall": { "name": tool, "args": arguments } }),
    };
    json!({
        "candidates": [{ "index": 0, "finishReason": "STOP", "content": { "role": "model", "parts": [part] } }],
        "usageMetadata": { "promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output },
        "modelVersion": model,
        "responseId": "1",
    })
}

/// An answer as events, of which there is one.
pub fn events(saying: &Saying, model: &str, tokens: (u64, u64)) -> Vec<String> {
    vec![format!("data: {}\n\n", whole(saying, model, tokens))]
}
