//! Chooses one of the agent's own tools for a step, and its arguments by the tool's schema.

use serde_json::{Map, Value, json};

/// A tool that an agent offers its model.
#[derive(Debug, Clone)]
pub struct Tool {
    pub name: String,
    /// JSON Schema of its arguments; null if it takes JavaScript that calls the other tools.
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

/// The call that writes a file. `cwd` is the agent's folder, if known. Some agents can write only through a
/// shell.
pub fn write(tools: &[Tool], cwd: Option<&str>, path: &str, text: &str) -> Option<(String, Value)> {
    let Some(tool) = named(tools, &["write", "write_file", "write_text_file"]) else {
        let [text, path] = [text, path].map(|word| shell_words::quote(word).into_owned());
        return run(tools, &format!("printf %s {text} > {path}"));
    };
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

pub fn run(tools: &[Tool], command: &str) -> Option<(String, Value)> {
    let names = [
        "bash",
        "run_shell_command",
        "execute",
        "exec_command",
        "shell_command",
        "shell",
    ];
    let Some(tool) = named(tools, &names) else {
        return code(
            tools,
            &format!("tools.exec_command({})", json!({ "cmd": command })),
        );
    };
    let call = arguments(tool, |argument, schema| match argument {
        "command" | "cmd" if schema["type"] == "array" => Some(json!(["bash", "-c", command])),
        "command" | "cmd" => Some(command.into()),
        _ => None,
    });
    Some((tool.name.clone(), call))
}

/// The call of a tool whose name in the agent begins with its server's name.
pub fn ending(tools: &[Tool], name: &str, arguments: &Value) -> Option<(String, Value)> {
    let ends = |tool: &&Tool| {
        let before = tool.name.strip_suffix(name);
        before.is_some_and(|before| !before.ends_with(char::is_alphanumeric))
    };
    if let Some(tool) = tools.iter().find(ends) {
        return Some((tool.name.clone(), arguments.clone()));
    }
    // Qwen Code lists none of a server's tools, and has one tool that calls them by their full name.
    if let Some(tool) = named(tools, &["tool_call"]) {
        let call = json!({ "name": format!("mcp__ralph__{name}"), "arguments": arguments });
        return Some((tool.name.clone(), call));
    }
    code(
        tools,
        &format!("tools[ALL_TOOLS.find(tool => tool.name.endsWith(\"{name}\")).name]({arguments})"),
    )
}

/// The call of a tool from JavaScript.
fn code(tools: &[Tool], call: &str) -> Option<(String, Value)> {
    let tool = tools.iter().find(|tool| tool.schema.is_null())?;
    Some((tool.name.clone(), format!("text(await {call})").into()))
}

fn named<'a>(tools: &'a [Tool], names: &[&str]) -> Option<&'a Tool> {
    tools
        .iter()
        .find(|tool| names.iter().any(|name| tool.name.eq_ignore_ascii_case(name)))
}

/// The known arguments, and placeholders of the right type for the other required ones.
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
