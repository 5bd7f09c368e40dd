//! `[memory]` of `.ralph.toml` (SPEC 6, 8).

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use serde::Deserialize;

use crate::domain::lifecycle::{Bounds, Distill};
use crate::flow::Settings;
use crate::prompt::Templates;

/// A hundred years.
const MOST_DAYS: f64 = 36_500.0;

/// `[memory]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Whether prompts hold what earlier iterations left.
    pub enabled: bool,
    /// Characters of a prompt that memory may take; the sum of its sections' budgets when it isn't given (SPEC 6.2).
    pub budget: Option<usize>,
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
    /// A folder whose files replace the prompts' templates of the same names.
    pub templates: Option<PathBuf>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            enabled: true,
            budget: None,
            hold_out: None,
            max_learnings: None,
            max_knowledge: None,
            unused_days: None,
            distill: None,
            distill_above: None,
            distill_usd_a_day: None,
            templates: None,
        }
    }
}

impl Memory {
    /// Sets what the coordinator goes by.
    ///
    /// # Errors
    /// When a template of the prompts can't be used, or a number makes no sense.
    pub(super) fn set(&self, settings: &mut Settings) -> anyhow::Result<()> {
        settings.memory = self.enabled;
        if let Some(total) = self.budget {
            settings.budgets.total = total;
        }
        if let Some(share) = self.hold_out {
            anyhow::ensure!(
                (0.0..=1.0).contains(&share),
                "memory.hold_out is a share, 0 to 1, not {share}"
            );
            settings.hold_out = share;
        }
        settings.bounds = self.bounds()?;
        if let Some(folder) = &self.templates {
            let templates = Templates::load(Some(folder))
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
    fn bounds_of_the_memory_are_checked() {
        for (text, word) in [
            ("max_learnings = 0", "memory.max_learnings"),
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
