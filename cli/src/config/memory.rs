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
        /// Whether prompts hold what earlier iterations left
        enabled: Option<bool> = toml("true"),
        /// Characters of a prompt that memory may take
        budget: Option<usize> = words("the sum of its sections' budgets"),
        /// Characters of a specification, a plan or a description that a prompt shows
        reference_chars: Option<usize> = toml("30000"),
        /// Decisions and unresolved errors of a feature that its sessions are told of
        max_entries: Option<usize> = toml("50"),
        /// Learnings and knowledge entries that an attempt may leave, together
        kept_entries: Option<usize> = toml("5"),
        /// Whether sessions are asked to keep CLAUDE.md, AGENTS.md and skills up to date
        agent_files: bool = toml("false"),
        /// Share of first attempts without other tasks' memory in the long run; a quarter until 50 were held out
        hold_out: Option<f64> = toml("0.05"),
        /// Learnings of a repository that are live at once
        max_learnings: Option<i64> = toml("100000"),
        /// Knowledge entries of a repository that are live at once
        max_knowledge: Option<i64> = toml("20000"),
        /// Days after which what no attempt was shown is hidden; 0 is never
        unused_days: Option<f64> = toml("365"),
        /// Whether sessions merge learnings that say nearly the same
        distill: Option<bool> = toml("false"),
        /// More learnings than this that share a rare tag are merged
        distill_above: Option<i64> = toml("20"),
        /// What these sessions may cost in 24 hours, in USD
        distill_usd_a_day: Option<f64> = toml("1"),
        /// Folder whose files replace the prompts' wording
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
    /// `[memory.embeddings]`: an outside model that helps to order what is remembered.
    #[derive(Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["memory.embeddings", Coordinator]
    pub struct EmbeddingsTable {
        /// Model that makes vectors of texts, in the OpenAI form
        url: String = words("no model is asked").secret(),
        /// That model's name
        model: String = words("none"),
        /// Key that it is sent, or file:PATH
        key: Option<String> = words("none").var("RALPH_EMBEDDINGS_KEY").secret(),
        /// Numbers of each vector
        dimensions: Option<usize> = words("as many as it answers"),
        /// How long a claim waits for a vector
        timeout_ms: Option<u64> = toml("300"),
    }
}

impl std::fmt::Debug for EmbeddingsTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An address may hold a token, as a key is one.
        f.debug_struct("EmbeddingsTable")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
