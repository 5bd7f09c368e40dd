//! A graph that may be stored.

use time::OffsetDateTime;

use super::problem::Problem;
use crate::scheduling::concurrency::Concurrency;

/// A task graph that follows every rule of SPEC 2.5 and 2.6.
///
/// The nodes are sorted: the parent and the blockers of a node have smaller indexes than the node. So one
/// pass can insert them, and one pass can compute values that depend on blockers. Otherwise, the nodes have
/// the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// The tasks; never empty.
    pub nodes: Vec<Node>,
    /// Total number of blockers.
    pub edges: usize,
    /// Ignored fields (the first 20), for the author.
    pub warnings: Vec<Problem>,
    /// Name of the file, or of another source.
    pub source_name: String,
}

impl Graph {
    /// The concurrency keys of its tasks.
    pub fn keys(&self) -> impl Iterator<Item = &Concurrency> {
        self.nodes.iter().filter_map(|node| node.concurrency.as_ref())
    }
}

/// One task of a [`Graph`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name within the file, unique in it.
    pub key: String,
    /// One line, 1..=500 characters.
    pub title: String,
    /// Up to 200,000 characters; empty when there is none.
    pub description: String,
    /// Line of the key in the text, from 1; 0 when the graph did not come from a text.
    pub line: u32,
    /// Index of the parent.
    pub parent: Option<u32>,
    /// Indexes of the task's own blockers, each once.
    pub after: Vec<u32>,
    /// Levels above this one: 0 for a task without a parent.
    pub depth: u32,
    /// Lower goes first.
    pub priority: i32,
    /// Pool, when the task asks for one.
    pub pool: Option<String>,
    /// Configured agent, when the task asks for one.
    pub agent: Option<String>,
    /// Model or tier, when the task asks for one.
    pub model: Option<String>,
    /// Retries, 0..=100, when the task says so.
    pub max_retries: Option<u32>,
    /// Verification on or off, when the task says so.
    pub verify: Option<bool>,
    /// Declared paths, each a [`Pattern`](crate::scheduling::paths::Pattern).
    pub paths: Vec<String>,
    /// The concurrency key that its sessions share with others.
    pub concurrency: Option<Concurrency>,
    /// The task does not start before this time.
    pub not_before: Option<OffsetDateTime>,
    /// Open blockers at the start: its own, and one more when its parent is blocked, since a blocked parent
    /// blocks its children as one blocker, level by level. With zero, the task may start.
    pub open_blockers: u32,
    pub open_children: u32,
}
