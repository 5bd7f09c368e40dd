//! What every step goes by.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
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
use crate::flow::maintenance::expired::KeptDays;
use crate::prompt::{Budgets, Templates};
use crate::store::memory::postings::Tail;
use crate::store::notice::Event;
use crate::tracer::Tracer;

/// How long the branches of attempts of features that ended stay at the remote, where nothing else is said.
const KEEP_ATTEMPTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Connections to the API at once, where nothing else is said. Of the 1,024 descriptors that a process usually may have, some are left for
/// the database, the broker and files.
const API_CONNECTIONS: usize = 800;

/// Times, limits and names that hold for the whole coordinator.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often workers send heartbeats.
    pub heartbeat: Duration,
    /// How long a lease lasts without one.
    pub lease: Duration,
    /// How long a worker out of contact lets its sessions go on.
    pub dark_limit: Duration,
    /// From a session's cancel to the signal, and from there to the kill.
    pub grace: Duration,
    /// The models.
    pub tiers: Tiers,
    /// Whether prompts hold what earlier iterations left.
    pub memory: bool,
    /// The share of first attempts that get no memory of other tasks, so that its worth can be measured. 0 to 1.
    pub hold_out: f64,
    /// An outside model that helps to order what is remembered, if there is one.
    pub embedder: Option<Embedder>,
    /// How large memories may grow.
    pub bounds: Bounds,
    /// What memory may take of a prompt.
    pub budgets: Budgets,
    /// The wording of prompts.
    pub templates: Arc<Templates>,
    /// How often each token may ask the API in the long run, and four times as often at once; 0 is no limit. A second, and by
    /// each coordinator.
    pub requests_per_second: u32,
    /// Connections to the API at once, of which streams may have three quarters; 0 is no limit. Each coordinator has as many.
    pub api_connections: usize,
    /// What a run may have at most, whoever starts it.
    pub ceilings: Ceilings,
    /// What a session may use of its run's limits at first, where nothing is known of its like.
    pub first_share: FirstShare,
    /// Limits beside a run's, which no other may exceed.
    pub levels: BTreeMap<Level, Limit>,
    /// Prices of models that go before the built-in ones.
    pub prices: Prices,
    /// Failures in a row after which an agent is told that its task is stuck (SPEC 6.7).
    pub stuck_threshold: i16,
    /// How long the branches of attempts of features that ended stay at the remote; for ever when `None` (DESIGN 6).
    pub keep_attempts: Option<Duration>,
    /// Which repositories may be named by who submits work.
    pub repositories: Repositories,
    /// Where attempts are at the remote.
    pub attempts: AttemptPlace,
    /// How long it is kept what sessions leave beside their work.
    pub kept: KeptDays,
    /// Who is told what happens, if anybody.
    pub notify: Option<Notify>,
    /// What this process has read of the newest memory.
    pub tail: Arc<Tail>,
    /// How far each feature came in taking turns for slots, with this process.
    pub turns: Arc<Mutex<Turns>>,
    /// Where traces of what ended go, if anywhere.
    pub tracer: Option<Tracer>,
    /// What is set, for whoever asks a running coordinator.
    pub in_force: Arc<[Setting]>,
}

/// Who is told that a run ended or that a person is needed (SPEC 9.3).
#[derive(Clone, PartialEq, Eq)]
pub struct Notify {
    /// Where it is posted.
    pub url: Option<String>,
    /// Key of the signature.
    pub secret: Option<String>,
    /// Program and arguments that get it on standard input; empty for none.
    pub command: Vec<String>,
    /// Which events; empty for all.
    pub events: Vec<String>,
}

impl Notify {
    /// Whether this event is told.
    pub fn wants(&self, event: Event) -> bool {
        self.events.is_empty() || self.events.iter().any(|name| name == event.as_str())
    }
}

impl std::fmt::Debug for Notify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An address may hold a token, as a secret does.
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
            tiers: Tiers::default(),
            memory: true,
            hold_out: 0.05,
            embedder: None,
            bounds: Bounds::default(),
            budgets: Budgets::default(),
            templates: Templates::built_in(),
            requests_per_second: 500,
            api_connections: API_CONNECTIONS,
            ceilings: Ceilings::default(),
            first_share: FirstShare::default(),
            levels: BTreeMap::new(),
            prices: Prices::default(),
            stuck_threshold: 3,
            keep_attempts: Some(KEEP_ATTEMPTS),
            repositories: Repositories::default(),
            attempts: AttemptPlace::default(),
            kept: KeptDays::default(),
            notify: None,
            tail: Arc::default(),
            turns: Arc::default(),
            tracer: None,
            in_force: Arc::default(),
        }
    }
}

impl Settings {
    /// The same with the times that the environment sets: `RALPH_HEARTBEAT_MS`, `RALPH_LEASE_MS`, `RALPH_DARK_LIMIT_MS`,
    /// `RALPH_GRACE_MS`. All coordinators of a system need the same ones.
    ///
    /// # Errors
    /// When one is no whole number of milliseconds, or the lease doesn't outlast two heartbeats.
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

    /// The lease in milliseconds, as the store takes it.
    pub fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }
}
