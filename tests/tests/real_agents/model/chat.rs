//! `POST …/chat/completions`, streamed or not.

use serde_json::{Value, json};

use super::script::{Message, Saying};
use super::tools::Tool;

pub fn messages(body: &Value) -> Vec<Message> {
    let messages = body["messages"].as_array().into_iter().flatten();
    messages
        .map(|message| {
            let text = match &message["content"] {
                Value::String(text) => text.clone(),
                Value::Array(parts) => parts
                    .iter()
                    .filter_map(|part| part["text"].as_str())
                    .collect::<Vec<_>>()
                    .join("\n"),
                _ => String::new(),
            };
            Message {
                text: if message["role"] == "user" {
                    text
                } else {
                    String::new()
                },
                results: usize::from(message["role"] == "tool"),
            }
        })
        .collect()
}

pub fn tools(body: &Value) -> Vec<Tool> {
    let tools = body["tools"].as_array().into_iter().flatten();
    tools
        .filter_map(|tool| {
            let function = &tool["function"];
            Some(Tool {
                name: function["name"].as_str()?.to_owned(),
                schema: function["parameters"].clone(),
            })
        })
        .collect()
}

pub fn error(status: u16) -> Value {
    json!({ "error": { "message": format!("scripted {status}"), "type": "scripted", "code": status } })
}

fn content(saying: &Saying) -> (Value, &'static str) {
    match saying {
        Saying::Text(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Saying::Call { tool, arguments } => {
            let call = json!({
                "index": 0, "id": format!("call_{}", uuid::Uuid::new_v4().simple()), "type": "function",
                "function": { "name": tool, "arguments": arguments.to_string() },
            });
            (
                json!({ "role": "assistant", "content": null, "tool_calls": [call] }),
                "tool_calls",
            )
        }
    }
}

fn usage((input, output): (u64, u64)) -> Value {
    json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output })
}

pub fn whole(saying: &Saying, model: &str, tokens: (u64, u64)) -> Value {
    let (message, finish) = content(saying);
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "usage": usage(tokens),
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
    })
}

/// An answer as events. The first one begins it, the last two end it.
pub fn events(saying: &Saying, model: &str, tokens: (u64, u64)) -> Vec<String> {
    let (delta, finish) = content(saying);
    let chunk = |choices: Value| {
        json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices,
        })
    };
    let begin = chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]));
    let mut end = chunk(json!([{ "index": 0, "delta": {}, "finish_reason": finish }]));
    end["usage"] = usage(tokens);
    vec![
        format!("data: {begin}\n\n"),
        format!("data: {end}\n\n"),
        "data: [DONE]\n\n".to_owned(),
    ]
}
