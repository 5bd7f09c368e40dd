//! `[retention]` of `.ralph.toml`: retention of session records (SPEC 6.8).

use ralph_shared::config::toml;
use ralph_shared::config_table;
use serde::Deserialize;

use ralph_domain::retention::RetentionDays;

/// A hundred years.
const MOST_DAYS: u32 = 36_500;

config_table! {
    /// `[retention]`; 0 is for ever.
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["retention", Coordinator]
    pub struct Retention {
        /// Days that transcripts are retained; 0 is for ever
        transcripts_days: Option<u32> = toml("90"),
        /// Days that prompts are retained; 0 is for ever
        prompts_days: Option<u32> = toml("90"),
        /// Days that the record of memory entries shown to attempts is retained, at least as long as
        /// prompts; 0 is for ever
        uses_days: Option<u32> = toml("365"),
        /// Days that unreadable reports are retained; 0 is for ever
        bad_reports_days: Option<u32> = toml("30"),
    }
}

impl Retention {
    pub fn checked(&self) -> anyhow::Result<RetentionDays> {
        let mut retention = RetentionDays::default();
        for (name, given, days) in [
            (
                "transcripts_days",
                self.transcripts_days,
                &mut retention.transcripts,
            ),
            ("prompts_days", self.prompts_days, &mut retention.prompts),
            ("uses_days", self.uses_days, &mut retention.uses),
            (
                "bad_reports_days",
                self.bad_reports_days,
                &mut retention.bad_reports,
            ),
        ] {
            let Some(given) = given else { continue };
            anyhow::ensure!(
                given <= MOST_DAYS,
                "retention.{name} is a number of days, 0 (for ever) to {MOST_DAYS}, not {given}"
            );
            *days = (given > 0).then_some(f64::from(given));
        }
        Ok(retention.with_uses_of_prompts())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::config::Config;
    use ralph_domain::retention::RetentionDays;

    #[test]
    fn missing_keys_use_the_default_retention() {
        let parse = |text: &str| Config::parse(text).unwrap().0.retention.checked();
        assert_eq!(parse("").unwrap(), RetentionDays::default());
        let given = parse("[retention]\ntranscripts_days = 7\nprompts_days = 120").unwrap();
        let expected = RetentionDays {
            transcripts: Some(7.0),
            prompts: Some(120.0),
            ..RetentionDays::default()
        };
        assert_eq!(given, expected);
        let error = parse("[retention]\nuses_days = 99999").unwrap_err().to_string();
        assert!(
            error.contains("retention.uses_days") && error.contains("36500"),
            "{error}"
        );
    }

    #[test]
    fn uses_are_retained_at_least_as_long_as_prompts() {
        let check = |retention: &str, expected: Option<f64>| {
            let text = format!("[retention]\n{retention}");
            let retention = Config::parse(&text).unwrap().0.retention.checked().unwrap();
            assert_eq!(retention.uses, expected, "{text}");
        };
        check("uses_days = 400", Some(400.0));
        check("uses_days = 30", Some(90.0));
        check("uses_days = 30\nprompts_days = 7", Some(30.0));
        check("prompts_days = 500", Some(500.0));
        check("prompts_days = 0", None);
        check("uses_days = 0", None);
    }
}
