//! `POST …/responses`, streamed or not.

use serde_json::{Value, json};

use super::script::{Message, Saying};
use super::tools::Tool;

/// Separates the name of a group of tools from a tool's name; no name contains it.
const WITHIN: char = '/';

pub fn messages(body: &Value) -> Vec<Message> {
    if let Some(text) = body["input"].as_str() {
        return vec![Message {
            text: text.to_owned(),
            results: 0,
        }];
    }
    let items = body["input"].as_array().into_iter().flatten();
    items
        .map(|item| {
            let parts = item["content"].as_array().into_iter().flatten();
            let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
            let is_result = item["type"]
                .as_str()
                .is_some_and(|kind| kind.ends_with("_output"));
            Message {
                text: match item["role"].as_str() {
                    Some("user") => texts.join("\n"),
                    _ => String::new(),
                },
                results: usize::from(is_result),
            }
        })
        .collect()
}

/// The tools of a request. Tools in groups (`namespace`) have the group's name before theirs. Some models get
/// tools in a message.
pub fn tools(body: &Value) -> Vec<Tool> {
    // A request for a title has the whole prompt, the tools and a format for the answer.
    if body["text"]["format"]["type"] == "json_schema" {
        return Vec::new();
    }
    let input = body["input"].as_array().into_iter().flatten();
    let in_messages = input.filter(|item| item["type"] == "additional_tools");
    let lists = std::iter::once(body)
        .chain(in_messages)
        .map(|holder| &holder["tools"]);
    lists
        .flat_map(|list| list.as_array().into_iter().flatten())
        .flat_map(|tool| match tool["tools"].as_array() {
            Some(within) => within
                .iter()
                .filter_map(|one| read(one, tool["name"].as_str()))
                .collect(),
            None => Vec::from_iter(read(tool, None)),
        })
        .collect()
}

fn read(tool: &Value, group: Option<&str>) -> Option<Tool> {
    let name = tool["name"].as_str()?;
    let schema = match tool["type"].as_str() {
        Some("function") => tool["parameters"].clone(),
        Some("custom") if name == "exec" => Value::Null,
        _ => return None,
    };
    let name = group.map_or_else(|| name.to_owned(), |group| format!("{group}{WITHIN}{name}"));
    Some(Tool { name, schema })
}

pub fn error(status: u16) -> Value {
    json!({ "error": { "message": format!("scripted {status}"), "type": "scripted", "code": status.to_string() } })
}

fn item(saying: &Saying) -> Value {
    match saying {
        Saying::Text(text) => json!({
            "id": id("msg"), "type": "message", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        // JavaScript.
        Saying::Call {
            tool,
            arguments: Value::String(code),
        } => json!({
            "id": id("ctc"), "type": "custom_tool_call", "status": "completed", "call_id": id("call"),
            "name": tool.rsplit(WITHIN).next(), "input": code,
        }),
        Saying::Call { tool, arguments } => {
            let (group, name) = match tool.split_once(WITHIN) {
                Some((group, name)) => (Some(group), name),
                None => (None, tool.as_str()),
            };
            let mut call = json!({
                "id": id("fc"), "type": "function_call", "status": "completed", "call_id": id("call"),
                "name": name, "arguments": arguments.to_string(),
            });
            if let Some(group) = group {
                call["namespace"] = group.into();
            }
            call
        }
    }
}

pub fn whole(saying: &Saying, model: &str, (input, output): (u64, u64)) -> Value {
    json!({
        "id": id("resp"), "object": "response", "created_at": 1, "model": model, "status": "completed",
        "output": [item(saying)],
        "usage": {
            "input_tokens": input, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": output, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": input + output,
        },
    })
}

/// An answer as events. All but the last two begin it.
pub fn events(saying: &Saying, model: &str, tokens: (u64, u64)) -> Vec<String> {
    let whole = whole(saying, model, tokens);
    let done = whole["output"][0].clone();
    let (mut begun, mut added) = (whole.clone(), done.clone());
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    added["status"] = "in_progress".into();
    let (delta, content) = match saying {
        Saying::Text(text) => {
            added["content"] = json!([]);
            ("response.output_text.delta", text.clone())
        }
        Saying::Call {
            arguments: Value::String(code),
            ..
        } => {
            added["input"] = "".into();
            ("response.custom_tool_call_input.delta", code.clone())
        }
        Saying::Call { arguments, .. } => {
            added["arguments"] = "".into();
            ("response.function_call_arguments.delta", arguments.to_string())
        }
    };
    let events = [
        json!({ "type": "response.created", "response": begun }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": added }),
        json!({ "type": delta, "item_id": done["id"], "output_index": 0, "content_index": 0, "delta": content }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": done }),
        json!({ "type": "response.completed", "response": whole }),
    ];
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

fn id(prefix: &str) -> String {
    format!("{prefix}_{}", uuid::Uuid::new_v4().simple())
}
