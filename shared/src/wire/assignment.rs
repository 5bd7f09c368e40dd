//! What a worker is asked to do: everything that it needs, chosen when it claimed (DESIGN 1.3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::git::GitOperationOrder;
use super::text::Text;
use super::usage::Share;
use crate::agents::prices::Prices;
use crate::ids::{DispatchId, FeatureId, RunId, TaskId};
use crate::kind::SessionKind;
use crate::wire::repo_scan::RepoScanOrder;

/// Where in its folder a session finds the texts that were too long for its prompt; nothing in there is committed (SPEC 8).
pub const CONTEXT_DIR: &str = ".ralph/context";

/// One dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The message's version.
    pub v: u16,
    /// The fence: every message about this work names it.
    pub dispatch: DispatchId,
    pub kind: SessionKind,
    pub feature: FeatureId,
    /// Its name, safe in a ref.
    pub feature_name: String,
    pub run: RunId,
    pub task: TaskId,
    /// Its title, for logs and commit messages.
    pub task_title: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Where the work happens.
    pub workspace: WorkspaceOrder,
    pub work: Work,
    /// How long the lease lasts without a heartbeat. Milliseconds. Told for workers of releases that want it: this one goes by
    /// the answer to its hello, and an assignment of the next version is without.
    #[serde(default)]
    pub lease_ms: u64,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum Work {
    /// One agent session.
    Session(SessionOrder),
    Integrate(IntegrateOrder),
    /// One change of a branch.
    Git(GitOperationOrder),
}

/// An agent session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOrder {
    pub prompt: Text,
    /// What the agent is told when its process ended in the middle of its turn, was started again and could resume its
    /// session; it is not when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_exit: Option<String>,
    /// Which of the worker's agents; its default one when `None`.
    pub agent: Option<String>,
    /// Which model; the agent's own default when `None`.
    pub model: Option<ModelChoice>,
    pub limits: SessionLimits,
    /// What it may use of its run's cost and tokens, until it is granted more.
    #[serde(default, skip_serializing_if = "Share::is_unlimited")]
    pub share: Share,
    /// Prices of models that go before the built-in ones, for who tells no cost.
    #[serde(default, skip_serializing_if = "Prices::is_empty")]
    pub prices: Prices,
    /// What the session may write.
    pub access: Access,
    /// Texts that the prompt shows only the beginning of, by the names of files that hold them below [`CONTEXT_DIR`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, Text>,
    /// Number of the run's iteration, from 1 (`RALPH_ITERATION`).
    pub iteration: u32,
    /// Its limit, or how many tasks the feature has where there is none (`RALPH_TOTAL`).
    pub total: u32,
    /// What to look up in the commit that it starts from, where that is the head of the feature's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<RepoScanOrder>,
    /// Where spans of the agent's own belong (W3C Trace Context), if traces are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// A tier of the configuration and the names that agents may know it by (SPEC 7.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChoice {
    /// The tier: `sonnet`, say.
    pub tier: String,
    /// Names to look for among the agent's models, best first.
    pub names: Vec<String>,
    /// Whether nobody configured these names: then a worker that knows better ones for an agent looks for those first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_default: bool,
}

/// What a session may write (SPEC 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Nothing.
    ReadOnly,
    Workspace,
    /// What its commands leave behind, build products say, but no file through the protocol (`verify`).
    Commands,
}

/// Limits of one session (SPEC 3.4). Reaching one ends it in order, with the limit as the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionLimits {
    /// Wall time from the agent's start. Milliseconds.
    pub session_ms: u64,
    /// Longest silence of the agent. Milliseconds.
    pub idle_ms: u64,
    /// All that the agent sends. Bytes.
    pub output_bytes: u64,
    /// How often it may call a tool.
    pub tool_calls: u32,
    /// From `session/cancel` to the signal, and from there to the kill. Milliseconds.
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

/// Where the work happens (DESIGN 6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum WorkspaceOrder {
    /// An empty folder, for tasks without code.
    Scratch,
    /// A private clone of a repository.
    Git(GitOrder),
    /// A folder of the worker's machine itself: one session at a time, nothing is undone.
    Dir(DirOrder),
}

/// A folder of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirOrder {
    /// Its path from the root. The worker's configuration decides whether anybody may work there.
    pub path: String,
}

/// A repository as every worker can reach it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Repository {
    /// Address or path, as git takes it.
    pub address: String,
}

/// A clone and the refs that belong to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitOrder {
    pub repository: Repository,
    /// The feature's branch, without `refs/heads/`.
    pub feature_branch: String,
    /// The commit from which the feature branch starts when it doesn't exist yet. Hex object id.
    pub base: String,
    /// What landed last on the feature's branch: a branch without it is not the feature's any more. `None` while nothing
    /// did; then the branch must not hold anything but the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landed: Option<Box<Landed>>,
    /// Where the work starts instead of the feature branch's head: the commit that an earlier attempt pushed. Hex object id.
    pub start: Option<String>,
    /// The ref (whole name) on which `start` stands, so that it can be fetched.
    pub start_ref: Option<String>,
    /// Checkouts start without kept build output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold: bool,
    /// The work starts at the feature branch's head, with the change of `start` merged into the files: where both changed
    /// the same, conflict markers stand there.
    #[serde(default)]
    pub onto_head: bool,
    /// Commands of the gate: whoever judges the work is told when it changes a file that they name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate: Vec<String>,
    /// The ref (whole name) that this dispatch pushes to, created once, nobody else's.
    pub attempt_ref: String,
    /// Trailers of every commit that the worker makes: `Ralph-Task`, `Ralph-Attempt`, ….
    pub trailers: BTreeMap<String, String>,
}

/// What landed on a feature's branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landed {
    /// The commit. Hex object id.
    pub commit: String,
    /// The task whose trailer it has.
    pub task: TaskId,
}

/// An integration (DESIGN 6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrateOrder {
    /// The commit to bring onto the feature branch; `start_ref` of the workspace holds it.
    pub commit: String,
    /// First line of the landed commit.
    pub subject: String,
    /// Its further text, without trailers.
    pub body: String,
    /// The task conflicted before: conflict markers in what it adds are what an agent left over.
    #[serde(default)]
    pub after_conflict: bool,
    /// A further parent of the landed commit: what it brings into the branch. Hex object id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brings: Option<String>,
    /// The ref (whole name) on which that stood, so that it can be fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brings_ref: Option<String>,
    /// Commands that must succeed on exactly the commit that becomes the head.
    pub gate: Vec<String>,
    /// How they run, by their places; those that are missing run alone, within the worker's own bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<GateStep>,
    /// Patterns of paths, as `:(glob)` pathspecs of git: a commit that changes one doesn't land.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    /// An agent judged `commit`: its verdict holds for the same patch only, wherever that begins (DESIGN 6).
    #[serde(default)]
    pub judged: bool,
    /// Attempts that are to land before this one: then its tree behind them is made and the gate tried there, and nothing lands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Vec<Ahead>>,
    /// Trees on which the gate passed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<PassedTree>,
    /// A tree on which it failed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedTree>,
    /// How often a gate that failed is tried again on the same commit.
    #[serde(default)]
    pub retries: u32,
    /// An integration that was decided by somebody who was lost: finish it, don't decide again.
    pub resume: Option<Decided>,
}

/// How a command of a gate runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GateStep {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Longest run; the worker's own bound when it isn't given. Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// Whether it runs at the same time as the one before it.
    #[serde(default)]
    pub parallel: bool,
}

/// An attempt that is to land before another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    pub task: TaskId,
    /// Its commit. Hex object id.
    pub commit: String,
    /// The ref (whole name) on which that stands.
    pub commit_ref: String,
}

/// A tree on which a gate passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedTree {
    /// Hex object id.
    pub tree: String,
    /// The tree that the gate ran on, where it is another one: the last of a batch with this tree in it. Hex object id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<String>,
}

/// A tree on which a gate failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTree {
    /// Hex object id.
    pub tree: String,
    pub command: String,
    /// Its output, the end of it.
    pub output: String,
}

/// A decided integration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// Head of the feature branch before. Hex object id, all zeros for a branch that didn't exist.
    pub old: String,
    /// Head after. Hex object id.
    pub new: String,
    /// The ref (whole name) on which `new` stands.
    pub new_ref: String,
}
