//! The end of a dispatch, as its worker saw it. Facts only: the coordinator decides what they mean for the
//! task.

use serde::{Deserialize, Serialize};

use super::change::Change;
use super::control::EndReason;
use super::text::Text;
use super::usage::Usage;
use crate::ids::{DispatchId, Incarnation};
use crate::wire::availability::Unavailable;
use crate::wire::leftovers::LeftoverFiles;
use crate::wire::orphan::OrphanRef;

/// The report of one dispatch. It is repeated, byte for byte, until it is settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub v: u16,
    /// The fence.
    pub dispatch: DispatchId,
    pub worker: String,
    /// The incarnation that ran it.
    pub incarnation: Incarnation,
    /// Time from the assignment's arrival to this report; for a session of an earlier incarnation, to its
    /// last heartbeat, and 0 if that is unknown. Milliseconds.
    pub duration_ms: u64,
    pub finished: Finished,
}

impl Report {
    /// Whether it reports a session whose whole work is pushed.
    #[must_use]
    pub fn is_pushed(&self) -> bool {
        matches!(&self.finished, Finished::Session(session) if session.snapshot.is_pushed())
    }
}

/// The kind of dispatch that ended.
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
    /// Its usage, as far as the agent reported it.
    #[serde(default)]
    pub usage: Usage,
    #[serde(default)]
    pub tool_calls: u32,
    #[serde(default)]
    pub failed_tool_calls: u32,
    #[serde(default)]
    pub agent: AgentInfo,
    /// Changes in the workspace, from git.
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
    /// Output on standard output that was no message, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_output: Option<String>,
    /// Its questions to a person while nobody was there, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// Pause that its provider requested with a refusal. Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl SessionReport {
    /// A session of which only the end is known.
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

/// The end of a session (SPEC 3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Ended {
    /// The agent ended its turn.
    Turn {
        /// ACP's stop reason: `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`.
        stop_reason: String,
    },
    /// It was ended from outside, for this reason.
    Told { reason: EndReason },
    /// A limit of the session ended it.
    Limit { limit: SessionLimit },
    /// The agent's process ended before its turn did.
    AgentExited {
        /// Exit code, if it has one.
        code: Option<i32>,
        /// Signal that killed it, if one did.
        signal: Option<i32>,
    },
    /// The agent answered with an error, or broke the protocol.
    Protocol { message: String },
    /// The agent or its account could not be used: not the task's fault (SPEC 7.3).
    #[serde(rename = "door")]
    Unavailable {
        /// The kind of failure.
        door: Unavailable,
        /// Its message.
        message: String,
    },
    /// The workspace could not be made, or its result could not be pushed.
    Workspace {
        /// The failure, and git's own message.
        message: String,
        /// Whether a server or a part of the worker is unavailable, and the task not at fault: a later try or
        /// another worker may succeed.
        #[serde(default)]
        away: bool,
    },
}

impl Ended {
    /// Whether the agent ended its turn normally: then its text says how the work went.
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
    /// Disk space that others need.
    Disk,
    /// Its share of the run's cost.
    Cost,
    /// Its share of the run's tokens.
    Tokens,
}

/// Facts on the agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentInfo {
    /// Its name among the worker's agents.
    pub configured: String,
    /// Its account at a provider, in the worker's words; empty if nothing was started.
    #[serde(default)]
    pub account: String,
    /// Its name in the handshake.
    pub name: Option<String>,
    pub version: Option<String>,
    /// The model that was actually set, if any.
    pub model: Option<String>,
}

/// The state of a session's workspace at its end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// The commit with this state; `None` without a repository. Hex object id.
    pub commit: Option<String>,
    /// The commit that the session started from. Hex object id.
    pub start: Option<String>,
    /// The ref that the commit was pushed to, if it was.
    pub pushed_ref: Option<String>,
    /// The reason why it was not pushed, if it wasn't.
    pub push_error: Option<String>,
    /// Paths that changed, at most 500, lossily as UTF-8.
    pub files_changed: Vec<String>,
    /// Total number of changed paths.
    pub files_changed_count: u64,
    /// All changes of the task's work, if there are any to land.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// New files of this session that look like no work, by their size, their number or their folder's name:
    /// each in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bulk: Vec<String>,
    /// Commits that the agent made elsewhere than under its final files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strays: Vec<OrphanRef>,
    /// Without a repository: the leftover files, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<LeftoverFiles>,
}

impl Snapshot {
    /// Whether all of it is pushed, so that its worker's folder is no longer needed.
    #[must_use]
    pub fn is_pushed(&self) -> bool {
        self.push_error.is_none() && !self.strays.iter().any(|stray| stray.waits)
    }
}

/// An integration's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrationReport {
    pub end: IntegrationEnd,
    /// The gate's run, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gated: Option<Gated>,
    /// The gate's commands that ran last, in order.
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

/// An executed command of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StepTime {
    /// Its name, or the command itself.
    pub name: String,
    /// Its start, from the beginning of the gate. Milliseconds.
    pub began_ms: u64,
    pub duration_ms: u64,
    pub passed: bool,
}

/// A gate's run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gated {
    /// The tree that it ran on. Hex object id.
    pub tree: String,
    /// The trees of the attempts ahead of it, in their order. Hex object ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<String>,
    /// Number of failures there before it passed, or before the worker gave up.
    #[serde(default)]
    pub failures: u32,
}

/// The end of an integration (DESIGN 6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "integration", rename_all = "snake_case")]
pub enum IntegrationEnd {
    /// The task's commit is on the feature branch.
    Merged {
        commit: String,
        /// Whether it changes nothing: a valid result.
        empty: bool,
    },
    /// Rebasing conflicts.
    Conflict {
        paths: Vec<String>,
        /// The hunks, bounded.
        hunks: String,
        /// The head that it conflicts with.
        head: String,
        /// The tasks that landed changes of these paths since the attempt began, by the trailers of their
        /// commits.
        #[serde(default)]
        others: Vec<String>,
        /// The conflicting commit, if it isn't the attempt's: an agent has to merge it. Hex object id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// The ref (full name) of that commit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_ref: Option<String>,
    },
    /// The feature's branch contains its base.
    Updated {
        /// The branch's head; `None` while the feature has no branch of its own.
        commit: Option<String>,
        /// The base's head.
        base: String,
    },
    /// The feature's branch is merged into another one, or was handed over.
    Delivered {
        /// The commit that contains it. Hex object id.
        commit: String,
        /// The last landing on the feature's branch then, from the order. Hex object id.
        landed: Option<String>,
        /// Whether nothing was left to do.
        empty: bool,
    },
    /// The branch had moved, and the patch on its head differs from the judged one: it must be judged again
    /// before it lands.
    Rewritten {
        /// The attempt on the branch's head. Hex object id.
        commit: String,
        /// The ref (full name) of that commit.
        commit_ref: String,
    },
    /// Its additions contain conflict markers that an agent should have resolved.
    Unresolved {
        /// The files, lossily as UTF-8.
        paths: Vec<String>,
    },
    /// It changes protected paths: a person has to approve it.
    Protected {
        /// The paths, lossily as UTF-8.
        paths: Vec<String>,
    },
    /// A command of the gate failed on the rebased commit, or on the checked one.
    GateFailed {
        command: String,
        /// The end of its output.
        output: String,
    },
    /// The gate passes on the checked commit.
    Checked,
    /// The decided push is no longer possible, since the branch moved elsewhere: the turn starts again.
    Void { reason: String },
    /// The remote refused or could not be reached; nothing is known to have changed.
    Failed {
        /// The tried operation, and git's own message.
        message: String,
        /// Whether another try without a person can help.
        retry: bool,
        /// Whether the server or a part of this worker is unavailable, and the attempt not at fault: a later
        /// try or another worker may land it.
        #[serde(default)]
        away: bool,
    },
    /// It was ended from outside, for this reason.
    Told { reason: EndReason },
}
