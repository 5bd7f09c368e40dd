//! The coordinator's settings from `.ralph.toml` (SPEC 8).

use std::time::Duration;

use anyhow::Context as _;
use ralph_shared::{environment, file};

use super::{memory, telemetry};
use crate::config::{Config, NotifyTable, chosen};
use crate::domain::routing::strategy::Tiers;
use crate::flow::{Notify, Settings};
use crate::store::notice::Event;

/// Makes settings from a configuration.
///
/// # Errors
/// When a template of the prompts can't be used, or a value is out of range.
pub fn settings_of(config: &Config) -> anyhow::Result<Settings> {
    let mut settings = Settings {
        tiers: Tiers::new(config.models.tiers.clone()).unwrap_or_default(),
        ..Settings::default()
    };
    if let Some(wait) = config.questions.checked()? {
        settings.question_wait = wait;
    }
    memory::set(&config.memory, &mut settings)?;
    if let Some(failures) = config.execution.stuck_threshold {
        anyhow::ensure!(
            failures > 0,
            "execution.stuck_threshold is a number of failures, 1 or more, not {failures}"
        );
        settings.stuck_threshold = failures;
    }
    if let Some(days) = config.workspace.keep_attempts_days {
        let age = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        settings.keep_attempts = (days > 0).then_some(age);
    }
    settings.attempts = config.workspace.attempts;
    if let Some(most) = config.api.requests_per_second {
        settings.requests_per_second = most;
    }
    if let Some(most) = config.api.max_connections {
        settings.api_connections = usize::try_from(most).unwrap_or(usize::MAX);
    }
    settings.page_hosts = config.api.hosts.iter().map(|host| host.to_lowercase()).collect();
    settings.ceilings = config.ceilings.checked()?;
    settings.first_share = config.shares.checked()?;
    settings.levels = config.budgets.checked()?;
    settings.prices = config.prices.clone().checked().map_err(anyhow::Error::msg)?;
    settings.notify = notify(&config.notify)?;
    settings.retention = config.retention.checked()?;
    settings.repositories = config.repositories.checked()?;
    settings.tracer = telemetry::tracer(&config.telemetry)?;
    Ok(settings)
}

fn notify(table: &NotifyTable) -> anyhow::Result<Option<Notify>> {
    if table.url.is_none() && table.command.is_none() {
        return Ok(None);
    }
    if let Some(url) = &table.url {
        let web = reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        anyhow::ensure!(web, "notify.url is not an address; expected https://HOST/PATH");
    }
    for event in &table.events {
        anyhow::ensure!(
            Event::ALL.iter().any(|known| known.into_str() == event),
            "notify.events has `{event}`; there are run_ended, person_needed, pool_paused, deadline_passed, budget_used and worker_drained"
        );
    }
    let command = match &table.command {
        Some(command) => shell_words::split(command).context("notify.command can't be split into words")?,
        None => Vec::new(),
    };
    let secret = chosen(
        environment::value("RALPH_NOTIFY_SECRET")?,
        table.secret.as_deref(),
    );
    let secret = secret
        .as_deref()
        .map(file::value)
        .transpose()
        .context("notify.secret")?;
    Ok(Some(Notify {
        url: table.url.clone(),
        secret,
        command,
        events: table.events.clone(),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::embedder::Embedder;

    #[test]
    fn known_keys_are_read_and_unknown_ones_named() {
        let text = "colour = 1
            [execution]
            max_retries = 5
            verify = false
            learn = true
            retries = 2
            stuck_threshold = 5
            [agent]
            command = \"anything\"
            colour = 2
            [agents.fast]
            command = \"x\"
            colour = 3
            [workspace]
            repo_id = \"shared\"
            keep_attempts_days = 7
            [telemetry]
            endpont = \"http://127.0.0.1:4318\"
            [limits]
            max_time = \"2h\"
            [memory]
            enabled = false
            budget = 5000
            max_learnings = 9
            distill = true
            [memory.embeddings]
            url = \"http://localhost/v1/embeddings\"
            model = \"small\"
            modle = \"large\"
            [api]
            requests_per_second = 0
            max_connections = 9
            hosts = [\"Ralph.example\"]
            [ceilings]
            max_cost = 50
            max_time_hours = 2
            [models]
            tiers = [{ name = \"small\" }, { name = \"large\", names = [\"x\"] }]";
        let (config, unknown) = Config::parse(text).unwrap();
        assert_eq!(config.execution.max_retries, Some(5));
        assert_eq!(config.limits.max_time.as_deref(), Some("2h"));
        assert_eq!(
            unknown,
            [
                "agent.colour",
                "agents.fast.colour",
                "colour",
                "execution.retries",
                "memory.embeddings.modle",
                "telemetry.endpont"
            ]
        );
        assert_eq!(config.workspace.repo_id.as_deref(), Some("shared"));
        let settings = settings_of(&config).unwrap();
        assert!(!settings.memory);
        assert_eq!(settings.stuck_threshold, 5);
        assert_eq!(settings.keep_attempts, Some(Duration::from_secs(7 * 86_400)));
        assert_eq!(settings.requests_per_second, 0);
        assert_eq!(settings.api_connections, 9);
        assert_eq!(settings.page_hosts, ["ralph.example"]);
        assert_eq!(settings.ceilings.cost_usd, Some(50.0));
        assert_eq!(settings.ceilings.time_ms, Some(7_200_000));
        assert_eq!(settings.budgets.total, 5_000);
        assert_eq!(settings.bounds.learnings, 9);
        assert!(settings.bounds.distill.is_some());
        assert_eq!(settings.embedder.as_ref().map(Embedder::model), Some("small"));
        assert_eq!(settings.tiers.names(), ["small", "large"]);
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        let (config, unknown) = Config::parse("").unwrap();
        assert_eq!((config, unknown), (Config::default(), Vec::new()));
        let settings = settings_of(&Config::default()).unwrap();
        assert_eq!(settings.tiers, Tiers::default());
        assert_eq!(settings.question_wait, Duration::from_secs(600));
    }

    #[test]
    fn notify_settings_are_read_and_checked() {
        let notify = |text: &str| {
            let (config, _) = Config::parse(&format!("[notify]\n{text}")).unwrap();
            settings_of(&config)
                .map(|settings| settings.notify)
                .map_err(|e| format!("{e:#}"))
        };
        assert_eq!(notify("events = []").unwrap(), None);
        let read = notify("command = \"notify-send 'Ralph says'\"\nevents = [\"run_ended\"]")
            .unwrap()
            .unwrap();
        assert_eq!(read.command, ["notify-send", "Ralph says"]);
        assert!(read.wants(Event::RunEnded) && !read.wants(Event::PersonNeeded));
        for (text, word) in [
            ("url = \"ftp://x\"", "notify.url"),
            ("command = \"'\"", "notify.command"),
            ("url = \"https://x\"\nevents = [\"over\"]", "`over`"),
            ("url = \"https://x\"\nsecret = \"file:/no/such\"", "/no/such"),
        ] {
            let error = notify(text).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_ceiling_of_zero_is_refused() {
        for key in ["iterations", "max_time_hours", "max_cost", "max_tokens"] {
            let (config, _) = Config::parse(&format!("[ceilings]\n{key} = 0")).unwrap();
            let error = format!("{:#}", settings_of(&config).unwrap_err());
            assert!(error.contains(&format!("ceilings.{key}")), "{error}");
        }
    }
}
