//! `[memory]` of `.ralph.toml` (SPEC 6, 8).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ralph_shared::{environment, file};
use serde::Deserialize;

use super::sections::SectionsTable;
use crate::config::read::chosen;
use crate::domain::recall::lifecycle::{Bounds, Distill};
use crate::embedder::{Embedder, Endpoint};
use crate::flow::Settings;
use crate::prompt::{Asks, Templates};

/// With less of a text, a prompt doesn't say what it is about.
const LEAST_REFERENCE_CHARS: usize = 1_000;
/// Notes of a feature that a claim reads, at most.
const MOST_ENTRIES: usize = 1_000;
/// A hundred years.
const MOST_DAYS: f64 = 36_500.0;
/// Numbers that a vector may have.
const MOST_DIMENSIONS: usize = 8_192;
/// What a claim waits for a vector, and what it may be set to.
const CLAIM_WAITS_MS: u64 = 300;
const MOST_WAIT_MS: u64 = 10_000;
/// Holds the model's key.
const KEY_VARIABLE: &str = "RALPH_EMBEDDINGS_KEY";

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

impl EmbeddingsTable {
    fn checked(&self) -> anyhow::Result<Endpoint> {
        let web = reqwest::Url::parse(&self.url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        anyhow::ensure!(
            web,
            "memory.embeddings.url is no address; expected https://HOST/v1/embeddings"
        );
        anyhow::ensure!(
            !self.model.trim().is_empty(),
            "memory.embeddings.model is missing; expected the model's name, as the server knows it"
        );
        if let Some(dimensions) = self.dimensions {
            anyhow::ensure!(
                (1..=MOST_DIMENSIONS).contains(&dimensions),
                "memory.embeddings.dimensions is how many numbers a vector has, 1 to {MOST_DIMENSIONS}, not {dimensions}"
            );
        }
        let timeout_ms = self.timeout_ms.unwrap_or(CLAIM_WAITS_MS);
        anyhow::ensure!(
            (1..=MOST_WAIT_MS).contains(&timeout_ms),
            "memory.embeddings.timeout_ms is how long a claim waits, 1 to {MOST_WAIT_MS}, not {timeout_ms}"
        );
        let key = chosen(environment::value(KEY_VARIABLE)?, self.key.as_deref());
        let key = key
            .as_deref()
            .map(file::value)
            .transpose()
            .context("memory.embeddings.key")?;
        Ok(Endpoint {
            url: self.url.clone(),
            model: self.model.clone(),
            key: key.filter(|key| !key.is_empty()),
            dimensions: self.dimensions,
            timeout: Duration::from_millis(timeout_ms),
        })
    }
}

impl Memory {
    /// Sets what the coordinator goes by.
    ///
    /// # Errors
    /// When a template of the prompts can't be used, or a number makes no sense.
    pub(super) fn set(&self, settings: &mut Settings) -> anyhow::Result<()> {
        settings.memory = self.enabled;
        self.sections.set(&mut settings.budgets);
        if let Some(total) = self.budget {
            settings.budgets.total = total;
        }
        if let Some(chars) = self.reference_chars {
            anyhow::ensure!(
                chars >= LEAST_REFERENCE_CHARS,
                "memory.reference_chars is a number of characters, {LEAST_REFERENCE_CHARS} or more, not {chars}"
            );
            settings.budgets.reference = chars;
        }
        if let Some(entries) = self.max_entries {
            anyhow::ensure!(
                (1..=MOST_ENTRIES).contains(&entries),
                "memory.max_entries is a number of decisions and errors, 1 to {MOST_ENTRIES}, not {entries}"
            );
            settings.max_entries = entries;
        }
        let mut asks = Asks {
            agent_files: self.agent_files,
            people: !settings.question_wait.is_zero(),
            ..Asks::default()
        };
        if let Some(entries) = self.kept_entries {
            anyhow::ensure!(
                entries <= MOST_ENTRIES,
                "memory.kept_entries is a number of learnings and knowledge entries, 0 to {MOST_ENTRIES}, not {entries}"
            );
            asks.kept_entries = entries;
        }
        settings.kept_entries = asks.kept_entries;
        if let Some(share) = self.hold_out {
            anyhow::ensure!(
                (0.0..=1.0).contains(&share),
                "memory.hold_out is a share, 0 to 1, not {share}"
            );
            settings.hold_out = share;
        }
        settings.bounds = self.bounds()?;
        settings.embedder = match &self.embeddings {
            Some(table) => Some(Embedder::new(table.checked()?)?),
            None => None,
        };
        if self.templates.is_some() || asks != Asks::default() {
            let templates = Templates::load(self.templates.as_deref(), asks)
                .context("memory.templates names a folder that can't be used")?;
            settings.templates = Arc::new(templates);
        }
        Ok(())
    }

    fn bounds(&self) -> anyhow::Result<Bounds> {
        let usual = Bounds::default();
        let bounds = Bounds {
            learnings: self.max_learnings.unwrap_or(usual.learnings),
            knowledge: self.max_knowledge.unwrap_or(usual.knowledge),
            unused_days: self.unused_days.unwrap_or(usual.unused_days),
            distill: self.distill.unwrap_or(false).then(|| Distill {
                above: self.distill_above.unwrap_or(Distill::default().above),
                usd_a_day: self.distill_usd_a_day.unwrap_or(Distill::default().usd_a_day),
            }),
        };
        for (name, entries) in [
            ("memory.max_learnings", bounds.learnings),
            ("memory.max_knowledge", bounds.knowledge),
        ] {
            anyhow::ensure!(
                entries > 0,
                "{name} is a number of entries, 1 or more, not {entries}"
            );
        }
        let days = bounds.unused_days;
        anyhow::ensure!(
            (0.0..=MOST_DAYS).contains(&days),
            "memory.unused_days is a number of days, 0 to {MOST_DAYS}, not {days}"
        );
        if let Some(Distill { above, usd_a_day }) = bounds.distill {
            anyhow::ensure!(
                above > 1,
                "memory.distill_above is a number of learnings, 2 or more, not {above}"
            );
            anyhow::ensure!(
                usd_a_day > 0.0 && usd_a_day.is_finite(),
                "memory.distill_usd_a_day is a cost in USD, more than 0, not {usd_a_day}"
            );
        }
        Ok(bounds)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::config::Config;

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (text, word) in [
            (
                "embeddings = { url = 'ftp://x', model = 'm' }",
                "memory.embeddings.url",
            ),
            ("embeddings = { model = 'm' }", "memory.embeddings.url"),
            ("embeddings = { url = 'http://x' }", "memory.embeddings.model"),
            (
                "embeddings = { url = 'http://x', model = 'm', dimensions = 0 }",
                "memory.embeddings.dimensions",
            ),
            (
                "embeddings = { url = 'http://x', model = 'm', timeout_ms = 60000 }",
                "memory.embeddings.timeout_ms",
            ),
            (
                "embeddings = { url = 'http://x', model = 'm', key = 'file:/no/such' }",
                "/no/such",
            ),
            ("max_learnings = 0", "memory.max_learnings"),
            ("reference_chars = 999", "memory.reference_chars"),
            ("max_entries = 0", "memory.max_entries"),
            ("max_entries = 1001", "memory.max_entries"),
            ("kept_entries = 1001", "memory.kept_entries"),
            ("unused_days = -1.0", "memory.unused_days"),
            ("distill = true\ndistill_above = 1", "memory.distill_above"),
            (
                "distill = true\ndistill_usd_a_day = 0.0",
                "memory.distill_usd_a_day",
            ),
        ] {
            let (config, _) = Config::parse(&format!("[memory]\n{text}")).unwrap();
            let error = format!("{:#}", config.settings().unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }
}
