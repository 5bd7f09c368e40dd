//! How a dispatch ended, as its worker saw it. Facts only: what they mean for the task, the coordinator decides.

use serde::{Deserialize, Serialize};

use super::change::Change;
use super::control::EndReason;
use super::text::Text;
use super::usage::Usage;
use crate::ids::{DispatchId, Incarnation};
use crate::wire::availability::Unavailable;
use crate::wire::leftovers::LeftoverFiles;
use crate::wire::orphan::OrphanRef;

/// The report of one dispatch. Sent again, byte for byte, until it is settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The message's version.
    pub v: u16,
    /// The fence.
    pub dispatch: DispatchId,
    /// The worker's name.
    pub worker: String,
    /// The incarnation that ran it.
    pub incarnation: Incarnation,
    /// From the assignment's arrival to this report; of an earlier incarnation's session to its last heartbeat, and 0 where that isn't
    /// known. Milliseconds.
    pub duration_ms: u64,
    /// What ended.
    pub finished: Finished,
}

impl Report {
    /// Whether it tells of a session all of whose work is pushed.
    #[must_use]
    pub fn is_pushed(&self) -> bool {
        matches!(&self.finished, Finished::Session(session) if session.snapshot.is_pushed())
    }
}

/// What ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "finished", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a report is moved a few times in its life"
)]
pub enum Finished {
    /// An agent session.
    Session(Box<SessionReport>),
    Integration(IntegrationReport),
}

/// An agent session's end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionReport {
    pub ended: Ended,
    /// The agent's message text, joined; never thoughts or tool output (SPEC 4.1).
    #[serde(default)]
    pub text: Text,
    /// Whether the text was cut at the session's output limit.
    #[serde(default)]
    pub text_truncated: bool,
    /// What it used, as far as the agent said so.
    #[serde(default)]
    pub usage: Usage,
    /// How many tools it called.
    #[serde(default)]
    pub tool_calls: u32,
    /// How many of these calls failed.
    #[serde(default)]
    pub failed_tool_calls: u32,
    /// What is known of the agent.
    #[serde(default)]
    pub agent: AgentInfo,
    /// What changed in the workspace, from git.
    #[serde(default)]
    pub snapshot: Snapshot,
    /// The last plan entries and tool titles, newest last (SPEC 4.3).
    #[serde(default)]
    pub attempted: Vec<String>,
    /// Output of the last tool call that failed.
    #[serde(default)]
    pub last_tool_error: Option<String>,
    /// The agent's last lines on standard error.
    #[serde(default)]
    pub stderr_tail: String,
    /// What it wrote on standard output that was no message, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_output: Option<String>,
    /// What it asked of a person, and nobody was there, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// For how long its provider asks to be left alone, where that refused it. Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl SessionReport {
    /// A session of which nothing is known but how it ended.
    pub fn new(ended: Ended) -> Self {
        Self {
            ended,
            text: Text::default(),
            text_truncated: false,
            usage: Usage::default(),
            tool_calls: 0,
            failed_tool_calls: 0,
            agent: AgentInfo::default(),
            snapshot: Snapshot::default(),
            attempted: Vec::new(),
            last_tool_error: None,
            stderr_tail: String::new(),
            unread_output: None,
            questions: Vec::new(),
            retry_after_ms: None,
        }
    }
}

/// How a session ended (SPEC 3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Ended {
    /// The agent ended its turn.
    Turn {
        /// ACP's stop reason: `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`.
        stop_reason: String,
    },
    /// We ended it, for this reason.
    Told {
        /// Why.
        reason: EndReason,
    },
    /// A limit of the session ended it.
    Limit { limit: SessionLimit },
    /// The agent's process ended before its turn did.
    AgentExited {
        /// Exit code, if it has one.
        code: Option<i32>,
        /// Signal that killed it, if one did.
        signal: Option<i32>,
    },
    /// The agent answered with an error, or with what is no protocol.
    Protocol {
        /// What it said.
        message: String,
    },
    /// The agent or its account could not be used: not the task's fault (SPEC 7.3).
    #[serde(rename = "door")]
    Unavailable {
        /// What kind of failure.
        door: Unavailable,
        /// What it said.
        message: String,
    },
    /// The workspace could not be made or its result not be pushed.
    Workspace {
        /// What failed, and git's own words.
        message: String,
        /// A server or something of the worker's is away, not the task: later or elsewhere it goes on.
        #[serde(default)]
        away: bool,
    },
}

impl Ended {
    /// Whether the agent ended its turn as it should: then its words say how it went.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        matches!(self, Self::Turn { stop_reason } if stop_reason == "end_turn")
    }
}

/// Limits that can end a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionLimit {
    /// Wall time.
    Session,
    /// Silence.
    Idle,
    /// Bytes sent.
    Output,
    ToolCalls,
    /// Updates, but no progress.
    Stall,
    /// Disk that it left to others.
    Disk,
    /// Its share of the run's cost.
    Cost,
    /// Its share of the run's tokens.
    Tokens,
}

/// What is known of the agent that ran.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentInfo {
    /// Its name among the worker's agents.
    pub configured: String,
    /// The account at a provider that it uses, in the worker's words; empty where nothing was started.
    #[serde(default)]
    pub account: String,
    /// The name that it gave in its handshake.
    pub name: Option<String>,
    pub version: Option<String>,
    /// The model that was really set, if any.
    pub model: Option<String>,
}

/// What a session left in its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// The commit that holds it; `None` without a repository. Hex object id.
    pub commit: Option<String>,
    /// Where the session started. Hex object id.
    pub start: Option<String>,
    /// The ref that it was pushed to, if it was.
    pub pushed_ref: Option<String>,
    /// Why it was not pushed, if it wasn't.
    pub push_error: Option<String>,
    /// Paths that changed, at most 500, lossily as UTF-8.
    pub files_changed: Vec<String>,
    /// How many changed in all.
    pub files_changed_count: u64,
    /// What the task's work changed in all, if it changed anything and is to land.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// New files of this session's that look like no work, for their size, their number or their folder's name: each in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bulk: Vec<String>,
    /// What the agent committed elsewhere than under the files that it left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strays: Vec<OrphanRef>,
    /// Without a repository: the files that it left, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<LeftoverFiles>,
}

impl Snapshot {
    /// Whether all of it is where its worker's folder isn't needed any more.
    #[must_use]
    pub fn is_pushed(&self) -> bool {
        self.push_error.is_none() && !self.strays.iter().any(|stray| stray.waits)
    }
}

/// An integration's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrationReport {
    pub end: IntegrationEnd,
    /// What the gate said of which trees, if it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gated: Option<Gated>,
    /// Its commands that ran last, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepTime>,
}

impl From<IntegrationEnd> for IntegrationReport {
    fn from(end: IntegrationEnd) -> Self {
        Self {
            end,
            gated: None,
            steps: Vec::new(),
        }
    }
}

/// A command of a gate that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StepTime {
    /// Its name, or the command itself.
    pub name: String,
    /// When it began, from the beginning of the gate. Milliseconds.
    pub began_ms: u64,
    pub duration_ms: u64,
    pub passed: bool,
}

/// A gate that ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gated {
    /// The tree that it ran on. Hex object id.
    pub tree: String,
    /// The trees of the attempts ahead of it, in their order. Hex object ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<String>,
    /// How often it failed there before it passed, or before it was given up.
    #[serde(default)]
    pub failures: u32,
}

/// How an integration ended (DESIGN 6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "integration", rename_all = "snake_case")]
pub enum IntegrationEnd {
    /// The task's commit is on the feature branch.
    Merged {
        commit: String,
        /// Whether it changes nothing: a valid result.
        empty: bool,
    },
    /// Rebasing it conflicts.
    Conflict {
        /// The conflicting paths.
        paths: Vec<String>,
        /// The hunks, bounded.
        hunks: String,
        /// The head that it conflicts with.
        head: String,
        /// The tasks that landed changes of these paths since the attempt began, by the trailers of their commits.
        #[serde(default)]
        others: Vec<String>,
        /// The commit that conflicts, where it isn't the attempt's: an agent has to bring it in. Hex object id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// The ref (whole name) on which it stands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_ref: Option<String>,
    },
    /// The feature's branch holds what its base has.
    Updated {
        /// The branch's head; `None` while it has none of its own.
        commit: Option<String>,
        /// The base's head.
        base: String,
    },
    /// The feature's branch is in another one, or was handed over.
    Delivered {
        /// The commit that holds it. Hex object id.
        commit: String,
        /// What had landed on the feature's branch then, as the order said. Hex object id.
        landed: Option<String>,
        /// Whether nothing was left to do.
        empty: bool,
    },
    /// The branch had moved, and what an agent judged is another patch there: to be judged again before it lands.
    Rewritten {
        /// The attempt on the branch's head. Hex object id.
        commit: String,
        /// The ref (whole name) on which it stands.
        commit_ref: String,
    },
    /// What it adds holds conflict markers that an agent should have resolved.
    Unresolved {
        /// Where, lossily as UTF-8.
        paths: Vec<String>,
    },
    /// It changes protected paths: a person has to approve it.
    Protected {
        /// Which, lossily as UTF-8.
        paths: Vec<String>,
    },
    /// A command of the gate failed on the rebased commit, or on the one that it was to be tried on.
    GateFailed {
        command: String,
        /// Its output, the end of it.
        output: String,
    },
    /// The gate passes on the commit that it was to be tried on.
    Checked,
    /// The decided push can't happen any more, since the branch went elsewhere: the turn starts again.
    Void {
        /// What was found.
        reason: String,
    },
    /// The remote refused or could not be reached; nothing is known to have changed.
    Failed {
        /// What was tried, and git's own words.
        message: String,
        /// Whether trying again without a person can help.
        retry: bool,
        /// The server, or what this worker lacks to get to what is there, not the attempt: later or elsewhere it lands.
        #[serde(default)]
        away: bool,
    },
    /// We ended it, for this reason.
    Told {
        /// Why.
        reason: EndReason,
    },
}
