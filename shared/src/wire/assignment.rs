//! The work of a worker: everything that it needs, chosen at its claim (DESIGN 1.3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::git::GitOperationOrder;
use super::text::Text;
use super::usage::Share;
use crate::agents::prices::Prices;
use crate::ids::{DispatchId, FeatureId, RunId, TaskId};
use crate::kind::SessionKind;
use crate::wire::repo_scan::RepoScanOrder;

/// The folder, below the session's own, of texts that were too long for its prompt; nothing in it is
/// committed (SPEC 8).
pub const CONTEXT_DIR: &str = ".ralph/context";

/// One dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub v: u16,
    /// The fence: every message about this work names it.
    pub dispatch: DispatchId,
    pub kind: SessionKind,
    pub feature: FeatureId,
    /// The feature's name, safe in a ref.
    pub feature_name: String,
    pub run: RunId,
    pub task: TaskId,
    /// The task's title, for logs and commit messages.
    pub task_title: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    pub workspace: WorkspaceOrder,
    pub work: Work,
    /// Length of the lease without a heartbeat. Milliseconds. Only workers of earlier releases need it: this
    /// release uses the answer to its hello, and an assignment of the next version omits it.
    #[serde(default)]
    pub lease_ms: u64,
}

/// The kind of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum Work {
    /// One agent session.
    Session(SessionOrder),
    Integrate(IntegrateOrder),
    /// One change of a branch.
    Git(GitOperationOrder),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOrder {
    pub prompt: Text,
    /// The prompt for an agent whose process ended in the middle of its turn, was started again and could
    /// resume its session. With `None`, it is not started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_exit: Option<String>,
    /// The name of the worker's agent; `None` for its default one.
    pub agent: Option<String>,
    /// The model; `None` for the agent's own default.
    pub model: Option<ModelChoice>,
    pub limits: SessionLimits,
    /// Its part of the run's cost and tokens, until it is granted more.
    #[serde(default, skip_serializing_if = "Share::is_unlimited")]
    pub share: Share,
    /// Prices of models that override the built-in ones, for agents that report no cost.
    #[serde(default, skip_serializing_if = "Prices::is_empty")]
    pub prices: Prices,
    pub access: Access,
    /// Texts of which the prompt shows only the beginning, by the names of their files below [`CONTEXT_DIR`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, Text>,
    /// Number of the run's iteration, from 1 (`RALPH_ITERATION`).
    pub iteration: u32,
    /// The limit of iterations, or without one, the number of the feature's tasks (`RALPH_TOTAL`).
    pub total: u32,
    /// The scan of the commit that it starts from, if that is the head of the feature's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<RepoScanOrder>,
    /// The parent of the agent's own spans (W3C Trace Context), if traces are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// A tier of the configuration, with the names of its models at agents (SPEC 7.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChoice {
    /// The tier, such as `sonnet`.
    pub tier: String,
    /// Names to look for among the agent's models, best first.
    pub names: Vec<String>,
    /// Whether the names are defaults: a worker that knows better ones for an agent then looks for those
    /// first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
}

/// A session's right to write (SPEC 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    ReadOnly,
    Workspace,
    /// Files that its commands leave, such as build products, but no file through the protocol (`verify`).
    Commands,
}

/// Limits of one session (SPEC 3.4). Reaching one ends it gracefully, with the limit as the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionLimits {
    /// Wall time from the agent's start. Milliseconds.
    pub session_ms: u64,
    /// Longest silence of the agent. Milliseconds.
    pub idle_ms: u64,
    /// Everything that the agent sends. Bytes.
    pub output_bytes: u64,
    /// Maximum number of tool calls.
    pub tool_calls: u32,
    /// Time from `session/cancel` to the signal, and from there to the kill. Milliseconds.
    pub grace_ms: u64,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            session_ms: 60 * 60 * 1000,
            idle_ms: 10 * 60 * 1000,
            output_bytes: 50 * 1024 * 1024,
            tool_calls: 10_000,
            grace_ms: 5_000,
        }
    }
}

/// The place of the work (DESIGN 6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum WorkspaceOrder {
    /// An empty folder, for tasks without code.
    Scratch,
    /// A private clone of a repository.
    Git(GitOrder),
    /// A folder of the worker's machine itself: one session at a time, and nothing is undone.
    Dir(DirOrder),
}

/// A folder of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirOrder {
    /// Its absolute path. The worker's configuration decides whether anybody may work there.
    pub path: String,
}

/// A repository as every worker can reach it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Repository {
    /// Address or path, as git reads it.
    pub address: String,
}

/// A clone and the refs that belong to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitOrder {
    pub repository: Repository,
    /// The feature's branch, without `refs/heads/`.
    pub feature_branch: String,
    /// The start of the feature branch if it doesn't exist yet. Hex object id.
    pub base: String,
    /// The last landing on the feature's branch: a branch without it is not the feature's any more. `None`
    /// before the first landing; then the branch must contain only the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landed: Option<Box<Landed>>,
    /// The start of the work instead of the feature branch's head: a commit that an earlier attempt pushed.
    /// Hex object id.
    pub start: Option<String>,
    /// The ref (full name) from which `start` can be fetched.
    pub start_ref: Option<String>,
    /// Whether checkouts start without cached build output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold: bool,
    /// Whether the work starts at the feature branch's head, with the change of `start` merged into the
    /// files. Where both changed the same lines, the files have conflict markers.
    #[serde(default)]
    pub onto_head: bool,
    /// Commands of the gate: the verifier gets a note when the work changes a file that they name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate: Vec<String>,
    /// The ref (full name) that this dispatch pushes to. It is created once, and belongs to no other
    /// dispatch.
    pub attempt_ref: String,
    /// Trailers of every commit that the worker makes: `Ralph-Task`, `Ralph-Attempt`, ….
    pub trailers: BTreeMap<String, String>,
}

/// A landing on a feature's branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landed {
    /// The commit. Hex object id.
    pub commit: String,
    /// The task in its trailer.
    pub task: TaskId,
}

/// An integration (DESIGN 6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrateOrder {
    /// The commit to land on the feature branch; `start_ref` of the workspace holds it.
    pub commit: String,
    /// First line of the landed commit.
    pub subject: String,
    /// The further text of the landed commit, without trailers.
    pub body: String,
    /// Whether the task conflicted before: conflict markers in its additions are then leftovers of an agent.
    #[serde(default)]
    pub after_conflict: bool,
    /// A further parent of the landed commit, whose changes it brings into the branch. Hex object id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brings: Option<String>,
    /// The ref (full name) from which that parent can be fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brings_ref: Option<String>,
    /// Commands that must succeed on exactly the commit that becomes the head.
    pub gate: Vec<String>,
    /// Settings of the commands, by position. A command without any runs alone, within the worker's own
    /// bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<GateStep>,
    /// Patterns of paths, as `:(glob)` pathspecs of git: a commit that changes such a path doesn't land.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    /// Whether an agent judged `commit`: its verdict holds only for the same patch, on any base (DESIGN 6).
    #[serde(default)]
    pub judged: bool,
    /// Attempts that land before this one. With these, the worker makes its tree behind them and tries the
    /// gate there, and nothing lands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Vec<Ahead>>,
    /// Trees on which the gate passed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<PassedTree>,
    /// A tree on which the gate failed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedTree>,
    /// Number of retries of a failed gate on the same commit.
    #[serde(default)]
    pub retries: u32,
    /// An integration that a lost dispatch decided: finish it without another decision.
    pub resume: Option<Decided>,
}

/// Settings of a gate's command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GateStep {
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Longest run; by default, the worker's own bound. Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// Whether it runs at the same time as the command before it.
    #[serde(default)]
    pub parallel: bool,
}

/// An attempt that lands before another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    pub task: TaskId,
    /// Its commit. Hex object id.
    pub commit: String,
    /// The ref (full name) of that commit.
    pub commit_ref: String,
}

/// A tree on which a gate passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedTree {
    /// Hex object id.
    pub tree: String,
    /// The tree that the gate ran on, if it is another one: the last of a batch with this tree in it. Hex
    /// object id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<String>,
}

/// A tree on which a gate failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTree {
    /// Hex object id.
    pub tree: String,
    pub command: String,
    /// The end of its output.
    pub output: String,
}

/// A decided integration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// Head of the feature branch before the push. Hex object id, all zeros for a new branch.
    pub old: String,
    /// Head after the push. Hex object id.
    pub new: String,
    /// The ref (full name) of `new`.
    pub new_ref: String,
}
