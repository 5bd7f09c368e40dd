//! `[questions]` of `.ralph.toml`: questions of agents to people.

use std::time::Duration;

use ralph_shared::config::toml;
use ralph_shared::config_table;
use serde::Deserialize;

use crate::terminal::duration::Span;

/// Longest time that a session may wait for a person.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

config_table! {
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["questions", Coordinator]
    pub struct Questions {
        /// How long a session waits for a person's answer; 0 is not at all
        wait: Option<String> = toml("'10m'"),
    }
}

impl Questions {
    pub fn checked(&self) -> anyhow::Result<Option<Duration>> {
        let Some(wait) = &self.wait else {
            return Ok(None);
        };
        let wait: Result<Span, _> = wait.parse();
        let Span(wait) = wait.map_err(|why| anyhow::anyhow!("questions.wait: {why}"))?;
        anyhow::ensure!(
            wait <= LONGEST,
            "questions.wait is at most 24h: a session holds its slot meanwhile"
        );
        Ok(Some(wait))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_wait_for_an_answer_is_a_time_of_at_most_a_day() {
        let wait = |text: &str| {
            let config = Config::parse(text).unwrap().0;
            config.questions.checked()
        };
        assert_eq!(wait("").unwrap(), None);
        assert_eq!(wait("[questions]\nwait = '0'").unwrap(), Some(Duration::ZERO));
        assert_eq!(
            wait("[questions]\nwait = '1h30m'").unwrap(),
            Some(Duration::from_secs(5_400))
        );
        for (wrong, why) in [("soon", "is not a time"), ("25h", "at most 24h")] {
            let error = wait(&format!("[questions]\nwait = '{wrong}'"))
                .unwrap_err()
                .to_string();
            assert!(error.contains("questions.wait") && error.contains(why), "{error}");
        }
    }
}
