//! Directives of a script, one a line:
//!
//! | directive | answer of the model |
//! | --- | --- |
//! | `@write PATH TEXT` | calls the agent's tool that writes a file |
//! | `@run CMD` | calls the agent's tool that runs a command |
//! | `@tool NAME JSON` | calls the agent's tool whose name ends with `NAME`, with these arguments |
//! | `@meet N` | answers once `N` sessions have got this far |
//! | `@hold` | begins to answer and never ends, on the first request with this script |
//! | `@hold-at N` | the same at step `N`, counted from 0 |
//! | `@status CODE` | answers with this HTTP status, on the first request with this script |
//! | `@say TEXT` | text of its last message |
//! | `@done` | its last message says that the assigned task is done |

use serde_json::Value;

use super::tools::Tool;

/// The directives of one message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// One step for each turn of the model.
    steps: Vec<Step>,
    last_words: Vec<String>,
    pub first_status: Option<u16>,
    /// The step whose first answer does not end.
    pub hold_at: Option<usize>,
    /// Number of sessions that have to meet.
    pub meet: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Write { path: String, text: String },
    Run { command: String },
    Tool { name: String, arguments: Value },
}

/// One answer of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Saying {
    Text(String),
    Call { tool: String, arguments: Value },
}

/// One message of a conversation.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// The text, if the user wrote the message.
    pub text: String,
    /// Number of tool results in the message.
    pub results: usize,
}

impl Script {
    /// The newest script of a conversation, and the number of its steps already taken.
    pub fn of(messages: &[Message]) -> Option<(Self, usize)> {
        let at = messages
            .iter()
            .rposition(|message| Self::read(&message.text).is_some())?;
        let taken = messages[at..].iter().map(|message| message.results).sum();
        Self::read(&messages[at].text).map(|script| (script, taken))
    }

    /// The script of a message. In a prompt, the task's own script has priority over its plan's.
    fn read(text: &str) -> Option<Self> {
        let own = section(text).and_then(|section| Self::lines(section, text));
        own.or_else(|| Self::lines(text, text))
    }

    fn lines(part: &str, text: &str) -> Option<Self> {
        let mut script = Self::default();
        let mut found = false;
        for line in part.lines() {
            // A prompt quotes a plan with `> `.
            let line = line.trim().trim_start_matches("> ");
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "@write" => {
                    let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
                    script.steps.push(Step::Write {
                        path: path.to_owned(),
                        text: format!("{text}\n"),
                    });
                }
                "@run" => script.steps.push(Step::Run {
                    command: rest.to_owned(),
                }),
                "@tool" => {
                    let (name, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
                    let arguments = serde_json::from_str(arguments);
                    script.steps.push(Step::Tool {
                        name: name.to_owned(),
                        arguments: arguments.unwrap_or_else(|error| panic!("{line}: {error}")),
                    });
                }
                "@meet" => script.meet = rest.parse().ok(),
                "@hold" => script.hold_at = Some(0),
                "@hold-at" => script.hold_at = rest.parse().ok(),
                "@status" => script.first_status = rest.parse().ok(),
                "@say" => script.last_words.push(rest.to_owned()),
                "@done" => {
                    let id = assigned(text).unwrap_or("nothing");
                    script.last_words.push(format!("<task-done>{id}</task-done>"));
                }
                _ => continue,
            }
            found = true;
        }
        found.then_some(script)
    }

    /// The answer after `taken` steps.
    pub fn next(&self, taken: usize, tools: &[Tool], cwd: Option<&str>) -> Saying {
        let Some(step) = self.steps.get(taken) else {
            let mut words = vec!["The script is at its end.".to_owned()];
            words.extend(self.last_words.iter().cloned());
            return Saying::Text(words.join("\n"));
        };
        let call = match step {
            Step::Write { path, text } => super::tools::write(tools, cwd, path, text),
            Step::Run { command } => super::tools::run(tools, command),
            Step::Tool { name, arguments } => super::tools::ending(tools, name, arguments),
        };
        match call {
            Some((tool, arguments)) => Saying::Call { tool, arguments },
            None => {
                let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                Saying::Text(format!("no tool for {step:?} among {}", names.join(", ")))
            }
        }
    }
}

/// The section about the assigned task, without later sections.
fn section(prompt: &str) -> Option<&str> {
    let (_, section) = prompt.split_once("## Assigned Task")?;
    section.split("\n#").next()
}

/// The id of the task that a prompt assigns.
fn assigned(prompt: &str) -> Option<&str> {
    let (_, id) = section(prompt)?.split_once("ID: ")?;
    id.split_whitespace().next()
}

#[test]
fn the_newest_script_applies_and_its_steps_run_in_order() {
    let message = |text: &str, results| Message {
        text: text.to_owned(),
        results,
    };
    let prompt = "## Assigned Task\n\nID: t-1\nTitle: x\n\n@write a.txt some text\n@run ls\n@done\n";
    let tools = [
        Tool::new("Bash", &["command"]),
        Tool::new("Write", &["file_path", "content"]),
    ];
    let say = |messages: &[Message]| {
        let (script, taken) = Script::of(messages).unwrap();
        script.next(taken, &tools, None)
    };
    let old = message("@say old", 0);
    let call = |tool: &str, arguments: serde_json::Value| Saying::Call {
        tool: tool.to_owned(),
        arguments,
    };
    assert_eq!(
        say(&[old.clone(), message(prompt, 0)]),
        call(
            "Write",
            serde_json::json!({ "file_path": "a.txt", "content": "some text\n" })
        )
    );
    assert_eq!(
        say(&[message(prompt, 0), message("", 1)]),
        call("Bash", serde_json::json!({ "command": "ls" }))
    );
    assert_eq!(
        say(&[old, message(prompt, 0), message("", 1), message("reminder", 1)]),
        Saying::Text("The script is at its end.\n<task-done>t-1</task-done>".to_owned())
    );
    assert!(Script::of(&[message("make a title", 0)]).is_none());
}

#[test]
fn a_tasks_own_script_has_priority_over_its_plans() {
    let plan = "### Reference Specs\n\n> @tool task_create {\"tasks\": []}\n";
    let tools = [
        Tool::new("mcp__ralph__task_create", &[]),
        Tool::new("Bash", &["command"]),
    ];
    let first = |own: &str| {
        let text = format!("## Assigned Task\n\nID: t-1\n\n{own}\n\n{plan}");
        let (script, taken) = Script::of(&[Message { text, results: 0 }]).unwrap();
        match script.next(taken, &tools, None) {
            Saying::Call { tool, .. } => tool,
            Saying::Text(text) => text,
        }
    };
    assert_eq!(first("    @run ls"), "Bash");
    assert_eq!(first("    Break the plan into tasks."), "mcp__ralph__task_create");
}
