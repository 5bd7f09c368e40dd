//! Scripts as plain values: conditions and actions.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ralph_shared::kind::SessionKind;

/// The directives of a description, in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
}

/// One directive with its conditions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) conditions: Vec<Condition>,
    pub(super) action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Attempt(RangeInclusive<u32>),
    Kind(SessionKind),
    PromptHas(String),
    PromptLacks(String),
}

/// Facts that conditions test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) attempt: u32,
    pub(super) kind: SessionKind,
    /// The prompt without the script, which would otherwise satisfy its own conditions.
    pub(super) elsewhere: &'a str,
}

/// Expected result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Anything,
    Pass,
    Fail,
}

/// One action; `directives.md` describes them.
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
        /// Number of updates; each adds these amounts.
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
    WaitFor {
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
    /// The actions whose conditions hold for these facts, in order.
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
