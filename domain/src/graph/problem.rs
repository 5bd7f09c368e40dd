//! Problems of a graph, in words that its author can act on.

use std::fmt;

use super::limits::MAX_PROBLEMS;
use super::printable::quote;

/// The rule that a graph breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// The text is neither YAML nor JSON, or uses an unsupported part of YAML.
    Syntax,
    /// The graph has no task.
    Empty,
    /// A value has another shape or type than its field.
    Shape,
    /// An unknown field: a warning, or a problem when it is another word for `after`.
    UnknownField,
    /// A value that its field does not allow.
    Value,
    /// Two tasks with one key.
    DoubleKey,
    /// `after` or `parent` names no task of the graph.
    UnknownKey,
    /// A task that waits for itself.
    SelfEdge,
    /// Tasks that wait for each other, through blockers and parents together.
    Cycle,
    /// Larger than [`super::Limits`] allow.
    Limit,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line in the text, from 1; 0 if the graph did not come from a text or the problem concerns the whole
    /// graph.
    pub line: u32,
    /// Key of the task, when it is one task's problem and the key is known.
    pub key: Option<String>,
    pub kind: ProblemKind,
    /// The problem and its remedy, for people. A cycle has several lines.
    pub what: String,
}

impl Problem {
    /// `source_name:line: task `key`: what`, as far as they are known.
    pub fn describe(&self, source_name: &str) -> String {
        let line = if self.line > 0 {
            format!(":{}", self.line)
        } else {
            String::new()
        };
        let task = self.key.as_ref().map(|key| format!("task {}: ", quote(key)));
        format!("{source_name}{line}: {}{}", task.unwrap_or_default(), self.what)
    }
}

/// Problems, or warnings: the first [`MAX_PROBLEMS`] with their words, the others counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    kept: Vec<Problem>,
    total: usize,
}

impl Problems {
    /// Adds a problem; calls `what` only when its words are kept.
    pub fn push(&mut self, line: u32, key: Option<&str>, kind: ProblemKind, what: impl FnOnce() -> String) {
        self.total += 1;
        if self.kept.len() < MAX_PROBLEMS {
            self.kept.push(Problem {
                line,
                key: key.map(str::to_owned),
                kind,
                what: what(),
            });
        }
    }

    pub fn extend(&mut self, others: Vec<Problem>) {
        for other in others {
            self.total += 1;
            if self.kept.len() < MAX_PROBLEMS {
                self.kept.push(other);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Number of problems with words.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Sets the task's key in the kept problems from index `first` on: the key may come later in the file.
    pub fn name_from(&mut self, first: usize, key: &str) {
        for problem in &mut self.kept[first..] {
            problem.key.get_or_insert_with(|| key.to_owned());
        }
    }

    /// The kept problems in the order of their lines.
    pub fn into_kept(mut self) -> Vec<Problem> {
        self.kept.sort_by_key(|problem| problem.line);
        self.kept
    }

    /// As an error about `source`.
    pub fn into_errors(self, source: &str) -> GraphErrors {
        let total = self.total;
        GraphErrors {
            source_name: source.to_owned(),
            problems: self.into_kept(),
            total,
        }
    }
}

/// The problems that refuse a graph; their number is bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphErrors {
    /// Name of the file, or of another source.
    pub source_name: String,
    /// The first 20 found, by line.
    pub problems: Vec<Problem>,
    /// Total number of problems, including those without words.
    pub total: usize,
}

impl fmt::Display for GraphErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            1 => write!(f, "the task graph has a problem:")?,
            n => write!(f, "the task graph has {n} problems:")?,
        }
        for problem in &self.problems {
            write!(f, "\n  {}", problem.describe(&self.source_name))?;
        }
        match self.total - self.problems.len() {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for GraphErrors {}
