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

/// The call that writes a file; `cwd` is the agent's folder, as far as it is known.
pub fn write(tools: &[Tool], cwd: Option<&str>, path: &str, text: &str) -> Option<(String, Value)> {
    let tool = named(tools, &["write", "write_file", "write_text_file"])?;
    let call = arguments(tool, |argument, schema| match argument {
        "filepath" | "path" | "absolutepath" => {
            let whole = schema["description"]
                .as_str()
                .is_some_and(|words| words.to_lowercase().contains("absolute"));
            let cwd = cwd.filter(|_| whole);
            Some(
                cwd.map_or_else(|| path.to_owned(), |cwd| format!("{cwd}/{path}"))
                    .into(),
            )
        }
        "content" | "text" => Some(text.into()),
        _ => None,
    });
    Some((tool.name.clone(), call))
}

/// The call that runs a command.
pub fn run(tools: &[Tool], command: &str) -> Option<(String, Value)> {
    let tool = named(tools, &["bash", "run_shell_command", "execute"])?;
    let call = arguments(tool, |argument, _| {
        (argument == "command").then(|| command.into())
    });
    Some((tool.name.clone(), call))
}

fn named<'a>(tools: &'a [Tool], names: &[&str]) -> Option<&'a Tool> {
    tools
        .iter()
        .find(|tool| names.iter().any(|name| tool.name.eq_ignore_ascii_case(name)))
}

/// The arguments that are known, and something of the right type for the others that are required.
fn arguments(tool: &Tool, known: impl Fn(&str, &Value) -> Option<Value>) -> Value {
    let none = Map::new();
    let properties = tool.schema["properties"].as_object().unwrap_or(&none);
    let required = tool.schema["required"].as_array().into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let mut filled = Map::new();
    for (name, schema) in properties {
        let plain = name.replace('_', "").to_lowercase();
        let value = known(&plain, schema).or_else(|| {
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
