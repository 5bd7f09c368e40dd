//! Settings that all steps share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::Mutex;
use ralph_shared::agents::prices::Prices;
use ralph_shared::attempts::AttemptPlace;
use ralph_shared::repositories::Repositories;

use crate::config::Setting;
use crate::domain::budget::FirstShare;
use crate::domain::budget::levels::{Level, Limit};
use crate::domain::recall::lifecycle::Bounds;
use crate::domain::routing::strategy::Tiers;
use crate::domain::run::Ceilings;
use crate::domain::scheduling::fairness::Turns;
use crate::embedder::Embedder;
use crate::flow::maintenance::expired::RetentionDays;
use crate::prompt::{Budgets, PromptOptions, Templates};
use crate::store::memory::postings::Tail;
use crate::store::notice::Event;
use crate::tracer::Tracer;

/// Default retention of attempt refs after the end of their feature.
const KEEP_ATTEMPTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Default number of connections to the API. A process usually has 1,024 descriptors; the rest is for the
/// database, the broker and files.
const API_CONNECTIONS: usize = 800;

/// Times, limits and names for the whole coordinator.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often workers send heartbeats.
    pub heartbeat: Duration,
    /// How long a lease lasts without a heartbeat.
    pub lease: Duration,
    /// How long a worker out of contact lets its sessions continue.
    pub dark_limit: Duration,
    /// Time from a session's cancel to the signal, and from there to the kill.
    pub grace: Duration,
    /// How long a session waits for a person's answer; zero is not at all.
    pub question_wait: Duration,
    pub tiers: Tiers,
    /// Whether prompts contain memory.
    pub memory: bool,
    /// Share of first attempts without other tasks' memory, which measures the benefit of memory. 0 to 1.
    pub hold_out: f64,
    pub embedder: Option<Embedder>,
    pub bounds: Bounds,
    /// Budgets of memory in a prompt.
    pub budgets: Budgets,
    pub templates: Arc<Templates>,
    /// Requests per second of each token at each coordinator, with bursts of four times as many; 0 is no
    /// limit.
    pub requests_per_second: u32,
    /// Connections to the API of each coordinator; streams may have three quarters. 0 is no limit.
    pub api_connections: usize,
    /// Host names of the page besides those of loopback, in lower case.
    pub page_hosts: Vec<String>,
    /// Bounds of every run.
    pub ceilings: Ceilings,
    /// A session's first share of its run's limits, without past sessions of its kind.
    pub first_share: FirstShare,
    /// Limits beside a run's. They bound the limits that people set.
    pub levels: BTreeMap<Level, Limit>,
    /// Prices that override the built-in ones.
    pub prices: Prices,
    /// Newest decisions and unresolved errors of a feature that a prompt may show (SPEC 6.4).
    pub max_entries: usize,
    /// Most learnings and knowledge entries of an attempt, together (SPEC 6.8).
    pub kept_entries: usize,
    /// Failures in a row that make a task stuck (SPEC 6.7).
    pub stuck_threshold: i16,
    /// Retention of attempt refs after the end of their feature; `None` keeps them for ever (DESIGN 6).
    pub keep_attempts: Option<Duration>,
    /// Addresses that a submission may name.
    pub repositories: Repositories,
    pub attempts: AttemptPlace,
    /// Retention of sessions' by-products.
    pub retention: RetentionDays,
    pub notify: Option<Notify>,
    /// This process's cache of the newest memory entries.
    pub tail: Arc<Tail>,
    /// This process's turns of features for slots.
    pub turns: Arc<Mutex<Turns>>,
    pub tracer: Option<Tracer>,
    /// The settings in force, for `config`.
    pub in_force: Arc<[Setting]>,
}

/// Receivers of notices at a run's end or when a person is needed (SPEC 9.3).
#[derive(Clone, PartialEq, Eq)]
pub struct Notify {
    /// Address that notices are posted to.
    pub url: Option<String>,
    /// Key of the signature.
    pub secret: Option<String>,
    /// Program and arguments that get a notice on standard input; empty for none.
    pub command: Vec<String>,
    /// Names of the events to send; empty for all.
    pub events: Vec<String>,
}

impl Notify {
    /// Whether the receivers want this event.
    pub fn wants(&self, event: Event) -> bool {
        self.events.is_empty() || self.events.iter().any(|name| name == event.into_str())
    }
}

impl std::fmt::Debug for Notify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An address may contain a token.
        f.debug_struct("Notify")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(5),
            lease: Duration::from_secs(20),
            dark_limit: Duration::from_secs(600),
            grace: Duration::from_secs(5),
            question_wait: Duration::from_secs(600),
            tiers: Tiers::default(),
            memory: true,
            hold_out: 0.05,
            embedder: None,
            bounds: Bounds::default(),
            budgets: Budgets::default(),
            templates: Templates::built_in(),
            requests_per_second: 500,
            api_connections: API_CONNECTIONS,
            page_hosts: Vec::new(),
            ceilings: Ceilings::default(),
            first_share: FirstShare::default(),
            levels: BTreeMap::new(),
            prices: Prices::default(),
            max_entries: 50,
            kept_entries: PromptOptions::default().kept_entries,
            stuck_threshold: 3,
            keep_attempts: Some(KEEP_ATTEMPTS),
            repositories: Repositories::default(),
            attempts: AttemptPlace::default(),
            retention: RetentionDays::default(),
            notify: None,
            tail: Arc::default(),
            turns: Arc::default(),
            tracer: None,
            in_force: Arc::default(),
        }
    }
}

impl Settings {
    /// Reads times from the environment: `RALPH_HEARTBEAT_MS`, `RALPH_LEASE_MS`, `RALPH_DARK_LIMIT_MS`,
    /// `RALPH_GRACE_MS`. All coordinators of a system need the same ones.
    ///
    /// # Errors
    /// When one is no whole number of milliseconds, or the lease does not outlast two heartbeats.
    pub fn with_environment(mut self) -> anyhow::Result<Self> {
        for (name, time) in [
            ("RALPH_HEARTBEAT_MS", &mut self.heartbeat),
            ("RALPH_LEASE_MS", &mut self.lease),
            ("RALPH_DARK_LIMIT_MS", &mut self.dark_limit),
            ("RALPH_GRACE_MS", &mut self.grace),
        ] {
            if let Some(text) = std::env::var(name).ok().filter(|text| !text.is_empty()) {
                let ms =
                    text.trim().parse().ok().filter(|ms| *ms > 0).with_context(|| {
                        format!("{name} is `{text}`; expected milliseconds, such as 5000")
                    })?;
                *time = Duration::from_millis(ms);
            }
        }
        anyhow::ensure!(
            self.lease > 2 * self.heartbeat,
            "the lease ({} ms) must be longer than two heartbeats ({} ms each); change RALPH_LEASE_MS or \
             RALPH_HEARTBEAT_MS",
            self.lease.as_millis(),
            self.heartbeat.as_millis()
        );
        Ok(self)
    }

    /// The lease in milliseconds, for the store.
    pub fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }
}
