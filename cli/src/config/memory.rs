//! `[memory]` of `.ralph.toml` (SPEC 6, 8).

use std::path::PathBuf;

use serde::Deserialize;

use super::sections::SectionsTable;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Whether prompts hold what earlier iterations left.
    pub enabled: bool,
    /// Characters of a prompt that memory may take; the sum of its sections' budgets when it isn't given (SPEC 6.2).
    pub budget: Option<usize>,
    /// Characters of each section.
    pub sections: SectionsTable,
    /// Characters of a specification, a plan or a feature's description that a prompt shows; the rest stands in a file that it
    /// names. 30000 when it isn't given (SPEC 6.1).
    pub reference_chars: Option<usize>,
    /// Decisions and unresolved errors of a feature that its sessions are told of, together, the newest; 50 when it isn't given (SPEC
    /// 6.4).
    pub max_entries: Option<usize>,
    /// Learnings and knowledge entries that an attempt may leave, together; 5 when it isn't given. Further ones are dropped.
    pub kept_entries: Option<usize>,
    /// Whether prompts ask sessions to keep CLAUDE.md, AGENTS.md and skills up to date.
    pub agent_files: bool,
    /// The share of first attempts that get no memory of other tasks, so that its worth can be measured; 0.05 when it
    /// isn't given.
    pub hold_out: Option<f64>,
    /// Learnings that a repository may have at once; 100000 when it isn't given.
    pub max_learnings: Option<i64>,
    /// Knowledge entries that a repository may have at once; 20000 when it isn't given.
    pub max_knowledge: Option<i64>,
    /// Days after which what no attempt was shown is hidden; 365 when it isn't given, 0 is never.
    pub unused_days: Option<f64>,
    /// Whether sessions merge learnings that say nearly the same; they don't when it isn't given.
    pub distill: Option<bool>,
    /// More learnings than this that share a rare tag are merged; 20 when it isn't given.
    pub distill_above: Option<i64>,
    /// What these sessions may cost in 24 hours; 1 when it isn't given. USD.
    pub distill_usd_a_day: Option<f64>,
    /// An outside model that helps to order what is remembered; none when it isn't given.
    pub embeddings: Option<EmbeddingsTable>,
    /// A folder whose files replace the prompts' templates of the same names.
    pub templates: Option<PathBuf>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            enabled: true,
            budget: None,
            sections: SectionsTable::default(),
            reference_chars: None,
            max_entries: None,
            kept_entries: None,
            agent_files: false,
            hold_out: None,
            max_learnings: None,
            max_knowledge: None,
            unused_days: None,
            distill: None,
            distill_above: None,
            distill_usd_a_day: None,
            embeddings: None,
            templates: None,
        }
    }
}

/// `[memory.embeddings]`
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EmbeddingsTable {
    /// Address in the OpenAI form: `http://127.0.0.1:8080/v1/embeddings`.
    pub url: String,
    /// The model's name.
    pub model: String,
    /// Key that is sent to it, or `file:PATH`; `RALPH_EMBEDDINGS_KEY` wins.
    pub key: Option<String>,
    /// Numbers of each vector; as many as the model answers when it isn't given.
    pub dimensions: Option<usize>,
    /// How long a claim waits for its question's vector; 300 when it isn't given.
    pub timeout_ms: Option<u64>,
}

impl std::fmt::Debug for EmbeddingsTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An address may hold a token, as a key is one.
        f.debug_struct("EmbeddingsTable")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
