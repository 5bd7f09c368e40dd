//! `POST /v1/messages`, streamed or not.

use serde_json::{Value, json};

use super::script::{Message, Saying};
use super::tools::Tool;

pub fn messages(body: &Value) -> Vec<Message> {
    let messages = body["messages"].as_array().into_iter().flatten();
    messages
        .map(|message| {
            let blocks = match &message["content"] {
                Value::String(text) => vec![json!({ "type": "text", "text": text })],
                Value::Array(blocks) => blocks.clone(),
                _ => Vec::new(),
            };
            let user = message["role"] == "user";
            let texts = blocks
                .iter()
                .filter(|block| user && block["type"] == "text")
                .filter_map(|block| block["text"].as_str());
            Message {
                text: texts.collect::<Vec<_>>().join("\n"),
                results: blocks
                    .iter()
                    .filter(|block| block["type"] == "tool_result")
                    .count(),
            }
        })
        .collect()
}

pub fn tools(body: &Value) -> Vec<Tool> {
    let tools = body["tools"].as_array().into_iter().flatten();
    tools
        .filter_map(|tool| {
            Some(Tool {
                name: tool["name"].as_str()?.to_owned(),
                schema: tool["input_schema"].clone(),
            })
        })
        .collect()
}

pub fn error(status: u16) -> Value {
    let kind = match status {
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": format!("scripted {status}") } })
}

pub fn whole(saying: &Saying, model: &str, tokens: (u64, u64)) -> Value {
    let (content, stop) = match saying {
        Saying::Text(text) => (json!({ "type": "text", "text": text }), "end_turn"),
        Saying::Call { tool, arguments } => (
            json!({ "type": "tool_use", "id": id("toolu"), "name": tool, "input": arguments }),
            "tool_use",
        ),
    };
    json!({
        "id": id("msg"), "type": "message", "role": "assistant", "model": model,
        "content": [content], "stop_reason": stop, "stop_sequence": null,
        "usage": { "input_tokens": tokens.0, "output_tokens": tokens.1 },
    })
}

/// An answer as events. The first ones begin it, the last two end it.
pub fn events(saying: &Saying, model: &str, tokens: (u64, u64)) -> Vec<String> {
    let mut whole = whole(saying, model, tokens);
    let usage = whole["usage"].clone();
    let stop = std::mem::take(&mut whole["stop_reason"]);
    let content = std::mem::replace(&mut whole["content"], json!([]));
    let mut block = content[0].clone();
    let delta = match saying {
        Saying::Text(text) => {
            block["text"] = "".into();
            json!({ "type": "text_delta", "text": text })
        }
        Saying::Call { arguments, .. } => {
            block["input"] = json!({});
            json!({ "type": "input_json_delta", "partial_json": arguments.to_string() })
        }
    };
    let events = [
        json!({ "type": "message_start", "message": whole }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": usage }),
        json!({ "type": "message_stop" }),
    ];
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

fn id(prefix: &str) -> String {
    format!("{prefix}_{}", uuid::Uuid::new_v4().simple())
}
