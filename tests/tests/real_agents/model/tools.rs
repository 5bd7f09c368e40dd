//! Every agent has tools of its own: which one does a step, and with which arguments, its schema tells.

use serde_json::{Map, Value, json};

/// A tool that an agent offers its model.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
}

impl Tool {
    #[cfg(test)]
    pub fn new(name: &str, arguments: &[&str]) -> Self {
        let properties: Map<_, _> = arguments
            .iter()
            .map(|argument| ((*argument).to_owned(), json!({ "type": "string" })))
            .collect();
        Self {
            name: name.to_owned(),
            schema: json!({ "properties": properties, "required": arguments }),
        }
    }
}

/// The call that writes a file.
pub fn write(tools: &[Tool], path: &str, text: &str) -> Option<(String, Value)> {
    let tool = named(tools, "write")?;
    let call = arguments(tool, |argument| match argument {
        "filepath" | "path" => Some(path.into()),
        "content" | "text" => Some(text.into()),
        _ => None,
    });
    Some((tool.name.clone(), call))
}

/// The call that runs a command.
pub fn run(tools: &[Tool], command: &str) -> Option<(String, Value)> {
    let tool = named(tools, "bash")?;
    let call = arguments(tool, |argument| (argument == "command").then(|| command.into()));
    Some((tool.name.clone(), call))
}

fn named<'a>(tools: &'a [Tool], name: &str) -> Option<&'a Tool> {
    tools.iter().find(|tool| tool.name.eq_ignore_ascii_case(name))
}

/// The arguments that are known, and something of the right type for the others that are required.
fn arguments(tool: &Tool, known: impl Fn(&str) -> Option<Value>) -> Value {
    let none = Map::new();
    let properties = tool.schema["properties"].as_object().unwrap_or(&none);
    let required = tool.schema["required"].as_array().into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let mut filled = Map::new();
    for (name, schema) in properties {
        let plain = name.replace('_', "").to_lowercase();
        let value = known(&plain).or_else(|| {
            required
                .contains(&name.as_str())
                .then(|| match schema["type"].as_str() {
                    Some("boolean") => false.into(),
                    Some("integer" | "number") => 1.into(),
                    Some("array") => json!([]),
                    Some("object") => json!({}),
                    _ => "as the script says".into(),
                })
        });
        filled.extend(value.map(|value| (name.clone(), value)));
    }
    filled.into()
}
