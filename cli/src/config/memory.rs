//! `[memory]` of `.ralph.toml` (SPEC 6, 8).

use std::path::PathBuf;

use ralph_shared::config::{toml, words};
use ralph_shared::config_table;
use serde::Deserialize;

use super::sections::SectionsTable;

config_table! {
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["memory", Coordinator]
    pub struct Memory {
        /// Whether prompts hold memory of earlier iterations
        enabled: Option<bool> = toml("true"),
        /// Characters of memory in a prompt
        budget: Option<usize> = words("the sum of its sections' budgets"),
        /// Characters of a specification, a plan or a description in a prompt
        reference_chars: Option<usize> = toml("30000"),
        /// Decisions and unresolved errors of a feature in the prompts of its sessions
        max_entries: Option<usize> = toml("50"),
        /// Learnings and knowledge entries that an attempt may add, together
        kept_entries: Option<usize> = toml("5"),
        /// Whether sessions are asked to keep CLAUDE.md, AGENTS.md and skills up to date
        agent_files: bool = toml("false"),
        /// Long-run share of first attempts that get no memory of other tasks; a quarter until there are 50
        /// of them
        hold_out: Option<f64> = toml("0.05"),
        /// Live learnings of a repository
        max_learnings: Option<i64> = toml("100000"),
        /// Live knowledge entries of a repository
        max_knowledge: Option<i64> = toml("20000"),
        /// Days after which an entry that no attempt was shown is hidden; 0 is never
        unused_days: Option<f64> = toml("365"),
        /// Whether sessions merge learnings that say nearly the same
        distill: Option<bool> = toml("false"),
        /// Number of learnings with the same rare tag above which they are merged
        distill_above: Option<i64> = toml("20"),
        /// Cost limit of merging sessions in 24 hours, in USD
        distill_usd_a_day: Option<f64> = toml("1"),
        /// Folder with files that replace the built-in wording of prompts
        templates: Option<PathBuf> = words("the built-in wording"),
        .. {
            /// `[memory.sections]`
            pub sections: SectionsTable,
            /// `[memory.embeddings]`
            pub embeddings: Option<EmbeddingsTable>,
        }
    }
}

config_table! {
    /// `[memory.embeddings]`: an external model that helps to rank memory.
    #[derive(Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["memory.embeddings", Coordinator]
    pub struct EmbeddingsTable {
        /// Address of an embeddings API in the OpenAI format
        url: String = words("no model").secret(),
        /// Name of the model
        model: String = words("none"),
        /// API key, or file:PATH
        key: Option<String> = words("none").var("RALPH_EMBEDDINGS_KEY").secret(),
        /// Dimensions of a vector
        dimensions: Option<usize> = words("as many as it answers"),
        /// How long a claim waits for a vector
        timeout_ms: Option<u64> = toml("300"),
    }
}

impl std::fmt::Debug for EmbeddingsTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An address may hold a token, which is as secret as the key.
        f.debug_struct("EmbeddingsTable")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
