//! What a script can say: conditions and actions as plain values.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ralph_shared::kind::SessionKind;

/// A description's directives, in its order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
}

/// One directive with what stood before it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) conditions: Vec<Condition>,
    pub(super) action: Action,
}

/// When a directive counts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Attempt(RangeInclusive<u32>),
    Kind(SessionKind),
    PromptHas(String),
    PromptLacks(String),
}

/// What conditions are compared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) attempt: u32,
    pub(super) kind: SessionKind,
    /// The prompt without the script, which would else fulfil its own conditions.
    pub(super) elsewhere: &'a str,
}

/// What an agent expects of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Anything,
    Pass,
    Fail,
}

/// One thing to do; `directives.md` says what each means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Write {
        path: PathBuf,
        text: String,
    },
    Append {
        path: PathBuf,
        text: String,
    },
    Insert {
        path: PathBuf,
        after: String,
        text: String,
    },
    Read {
        path: PathBuf,
    },
    Run {
        command: String,
        expect: Expect,
    },
    FsWrite {
        path: PathBuf,
        text: String,
    },
    FsRead {
        path: PathBuf,
    },
    Term {
        command: String,
    },
    Ask {
        title: String,
    },
    Mcp {
        tool: String,
        arguments: serde_json::Value,
    },
    McpVersion {
        version: String,
    },
    McpFlood {
        size_bytes: usize,
    },
    Effect {
        name: String,
    },

    Say {
        text: String,
    },
    Split {
        text: String,
    },
    Think {
        text: String,
    },
    Plan {
        entries: Vec<String>,
    },
    Usage {
        input_tokens: u64,
        output_tokens: u64,
        cost_usd: f64,
        /// How many updates tell this much more each.
        times: u32,
    },
    Model,
    Meta,
    EchoPrompt,
    Flood {
        character: char,
        size_bytes: usize,
    },
    Stream {
        count: usize,
    },
    LongLine {
        size_bytes: usize,
    },
    ToolUpdateOnly,
    Stderr {
        text: String,
    },

    Wait {
        time: Duration,
    },
    AddDependencies {
        path: PathBuf,
    },
    Done {
        id: Option<String>,
    },
    Fail {
        why: String,
    },
    Stop {
        reason: String,
    },
    Error {
        code: i32,
        text: String,
    },
    Silent,

    Exit {
        status: i32,
    },
    Kill,
    Hang,
    IgnoreCancel,
    IgnoreTerm,
    IgnoreEof,
    Orphan {
        life: Duration,
    },
    CloseStdout,
    CloseStdin,
    Junk {
        text: String,
    },
    Raw {
        text: String,
    },
    Late {
        time: Duration,
        text: String,
    },
    BadJson,
    BadUtf8,
    UnknownUpdate,
    UnknownRequest,
    StrayResponse,
}

impl Script {
    /// The actions that count under these facts, in order.
    pub(super) fn applicable<'s>(&'s self, facts: Facts<'s>) -> impl Iterator<Item = &'s Action> {
        self.steps
            .iter()
            .filter(move |step| step.counts(facts))
            .map(|step| &step.action)
    }
}

impl Step {
    fn counts(&self, facts: Facts<'_>) -> bool {
        let names_kind = self
            .conditions
            .iter()
            .any(|condition| matches!(condition, Condition::Kind(_)));
        (names_kind || facts.kind == SessionKind::Work)
            && self.conditions.iter().all(|condition| match condition {
                Condition::Attempt(attempts) => attempts.contains(&facts.attempt),
                Condition::Kind(kind) => *kind == facts.kind,
                Condition::PromptHas(text) => facts.elsewhere.contains(text.as_str()),
                Condition::PromptLacks(text) => !facts.elsewhere.contains(text.as_str()),
            })
    }
}
