//! `[memory]` of `.ralph.toml` (SPEC 6, 8).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ralph_shared::{environment, file};

use crate::config::{EmbeddingsTable, Memory, chosen};
use crate::domain::recall::lifecycle::{Bounds, Distill};
use crate::embedder::{Embedder, Endpoint};
use crate::flow::Settings;
use crate::prompt::{PromptOptions, Templates};

/// A shorter excerpt of a text doesn't show the prompt's reader what the text is about.
const LEAST_REFERENCE_CHARS: usize = 1_000;
/// Most notes of a feature that a claim reads.
const MOST_ENTRIES: usize = 1_000;
/// A hundred years.
const MOST_DAYS: f64 = 36_500.0;
/// Most numbers in a vector.
const MOST_DIMENSIONS: usize = 8_192;
/// How long a claim waits for a vector: the default and the maximum.
const CLAIM_WAITS_MS: u64 = 300;
const MOST_WAIT_MS: u64 = 10_000;
/// Environment variable with the model's key.
const KEY_VARIABLE: &str = "RALPH_EMBEDDINGS_KEY";

fn endpoint(table: &EmbeddingsTable) -> anyhow::Result<Endpoint> {
    let web = reqwest::Url::parse(&table.url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    anyhow::ensure!(
        web,
        "memory.embeddings.url is not an address; expected https://HOST/v1/embeddings"
    );
    anyhow::ensure!(
        !table.model.trim().is_empty(),
        "memory.embeddings.model is missing; expected the model's name, as the server knows it"
    );
    if let Some(dimensions) = table.dimensions {
        anyhow::ensure!(
            (1..=MOST_DIMENSIONS).contains(&dimensions),
            "memory.embeddings.dimensions is how many numbers a vector has, 1 to {MOST_DIMENSIONS}, not {dimensions}"
        );
    }
    let timeout_ms = table.timeout_ms.unwrap_or(CLAIM_WAITS_MS);
    anyhow::ensure!(
        (1..=MOST_WAIT_MS).contains(&timeout_ms),
        "memory.embeddings.timeout_ms is how long a claim waits, 1 to {MOST_WAIT_MS}, not {timeout_ms}"
    );
    let key = chosen(environment::value(KEY_VARIABLE)?, table.key.as_deref());
    let key = key
        .as_deref()
        .map(file::value)
        .transpose()
        .context("memory.embeddings.key")?;
    Ok(Endpoint {
        url: table.url.clone(),
        model: table.model.clone(),
        key: key.filter(|key| !key.is_empty()),
        dimensions: table.dimensions,
        timeout: Duration::from_millis(timeout_ms),
    })
}

/// Applies `[memory]` to the settings.
///
/// # Errors
/// When a template of the prompts can't be used, or a number is out of range.
pub(super) fn set(memory: &Memory, settings: &mut Settings) -> anyhow::Result<()> {
    settings.memory = memory.enabled.unwrap_or(true);
    memory.sections.set(&mut settings.budgets);
    if let Some(total) = memory.budget {
        settings.budgets.total = total;
    }
    if let Some(chars) = memory.reference_chars {
        anyhow::ensure!(
            chars >= LEAST_REFERENCE_CHARS,
            "memory.reference_chars is a number of characters, {LEAST_REFERENCE_CHARS} or more, not {chars}"
        );
        settings.budgets.reference = chars;
    }
    if let Some(entries) = memory.max_entries {
        anyhow::ensure!(
            (1..=MOST_ENTRIES).contains(&entries),
            "memory.max_entries is a number of decisions and errors, 1 to {MOST_ENTRIES}, not {entries}"
        );
        settings.max_entries = entries;
    }
    let mut options = PromptOptions {
        agent_files: memory.agent_files,
        people: !settings.question_wait.is_zero(),
        ..PromptOptions::default()
    };
    if let Some(entries) = memory.kept_entries {
        anyhow::ensure!(
            entries <= MOST_ENTRIES,
            "memory.kept_entries is a number of learnings and knowledge entries, 0 to {MOST_ENTRIES}, not {entries}"
        );
        options.kept_entries = entries;
    }
    settings.kept_entries = options.kept_entries;
    if let Some(share) = memory.hold_out {
        anyhow::ensure!(
            (0.0..=1.0).contains(&share),
            "memory.hold_out is a share, 0 to 1, not {share}"
        );
        settings.hold_out = share;
    }
    settings.bounds = bounds(memory)?;
    let embedder = memory
        .embeddings
        .as_ref()
        .map(|table| Embedder::new(endpoint(table)?));
    settings.embedder = embedder.transpose()?;
    if memory.templates.is_some() || options != PromptOptions::default() {
        let templates = Templates::load(memory.templates.as_deref(), options)
            .context("memory.templates names a folder that can't be used")?;
        settings.templates = Arc::new(templates);
    }
    Ok(())
}

fn bounds(memory: &Memory) -> anyhow::Result<Bounds> {
    let usual = Bounds::default();
    let bounds = Bounds {
        learnings: memory.max_learnings.unwrap_or(usual.learnings),
        knowledge: memory.max_knowledge.unwrap_or(usual.knowledge),
        unused_days: memory.unused_days.unwrap_or(usual.unused_days),
        distill: memory.distill.unwrap_or(false).then(|| Distill {
            above: memory.distill_above.unwrap_or(Distill::default().above),
            usd_a_day: memory.distill_usd_a_day.unwrap_or(Distill::default().usd_a_day),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::config::{Config, settings_of};
    use crate::prompt::{Budgets, Section};

    #[test]
    fn an_error_names_the_key_of_an_invalid_value() {
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
            let error = format!("{:#}", settings_of(&config).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_section_budget_changes_the_total_unless_that_is_given() {
        let budgets = |text: &str| -> Budgets {
            let (config, unknown) = Config::parse(text).unwrap();
            assert_eq!(unknown, Vec::<String>::new());
            settings_of(&config).unwrap().budgets
        };
        assert_eq!(budgets(""), Budgets::default());
        let sections = "[memory.sections]\nprevious_attempts = 6000\njournal = 0\n";
        let given = budgets(sections);
        assert_eq!(given.total, 28_000 + 3_000 - 12_000);
        assert_eq!(given.allow(Section::PreviousAttempts, given.total), Some(6_000));
        assert_eq!(given.allow(Section::Journal, given.total), None);
        assert_eq!(
            budgets(&format!("[memory]\nbudget = 5000\n{sections}")).total,
            5_000
        );
    }
}
