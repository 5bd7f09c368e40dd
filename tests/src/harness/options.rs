//! Options of workers and features.

use std::collections::BTreeMap;
use std::path::Path;

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::FailurePolicy;
use ralph_shared::wire::MergeHow;

/// A fault that a process is started with (see `ralph_shared::faults`).
#[derive(Debug, Clone)]
pub struct Fault {
    env: BTreeMap<String, String>,
}

impl Fault {
    /// `fault` is `POINT:ACTION[:NTH]`; it hits only one of all processes that name the same file `once`.
    pub fn new(fault: &str, once: &Path) -> Self {
        let once = once.display().to_string();
        let env = [("RALPH_FAULT", fault.to_owned()), ("RALPH_FAULT_ONCE", once)];
        Self {
            env: env.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    /// SIGKILL at each of `points`, once each among all processes that name the same file `once`; see
    /// [`Fault::is_past`].
    pub fn kill_at_each(points: &[&str], once: &Path) -> Self {
        Self::at_each(points, "kill", once)
    }

    /// Like [`Fault::kill_at_each`], with SIGSTOP.
    pub fn halt_at_each(points: &[&str], once: &Path) -> Self {
        Self::at_each(points, "stop", once)
    }

    fn at_each(points: &[&str], action: &str, once: &Path) -> Self {
        let faults: Vec<String> = points.iter().map(|point| format!("{point}:{action}")).collect();
        Self::new(&faults.join(","), once)
    }

    /// Whether a process was hit at `point`, one of several points of a fault that records hits in `once`.
    pub fn is_past(point: &str, once: &Path) -> bool {
        Path::new(&format!("{}.{point}", once.display())).exists()
    }

    pub(super) fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }
}

#[derive(Debug, Clone)]
pub struct WorkerOptions {
    pub name: String,
    /// Its data folder's name; by default its own name.
    pub data: Option<String>,
    pub slots: u32,
    /// Pool, or several separated by commas.
    pub pool: String,
    /// Command of its agent; `None` for the scripted one.
    pub agent: Option<String>,
    pub agent_flags: String,
    /// Further environment variables.
    pub env: BTreeMap<String, String>,
    pub drain_seconds: u64,
    /// Size of a separate disk for its data folder, in MiB.
    pub disk_mib: Option<u32>,
}

impl WorkerOptions {
    /// A worker of that name with one slot in the pool `default`.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            data: None,
            slots: 1,
            pool: "default".to_owned(),
            agent: None,
            agent_flags: String::new(),
            env: BTreeMap::new(),
            drain_seconds: 5,
            disk_mib: None,
        }
    }

    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    #[must_use]
    pub fn pool(mut self, pool: &str) -> Self {
        self.pool = pool.to_owned();
        self
    }

    #[must_use]
    pub fn fault(mut self, fault: &Fault) -> Self {
        self.env.extend(fault.env().clone());
        self
    }
}

#[derive(Debug, Clone)]
pub struct FeatureOptions {
    /// Pool of tasks that don't set their own.
    pub pool: String,
    /// Whether an agent verifies attempts.
    pub verify: bool,
    pub max_parallel: i32,
    pub max_retries: i32,
    /// Limits and choices of the run.
    pub run: RunSettings,
    /// Effect of a failure on siblings.
    pub failure_policy: FailurePolicy,
    /// Whether tasks that change the same paths run one after the other.
    pub avoid_conflicts: bool,
    /// Folder for in-place work.
    pub dir: Option<String>,
    /// How to merge it into its base at the end.
    pub merge: Option<MergeHow>,
    /// A plan that a session breaks into tasks; the graph is empty then.
    pub plan: Option<String>,
}

impl FeatureOptions {
    #[must_use]
    pub fn pool(mut self, pool: &str) -> Self {
        self.pool = pool.to_owned();
        self
    }
}

impl Default for FeatureOptions {
    fn default() -> Self {
        Self {
            pool: "default".to_owned(),
            verify: false,
            max_parallel: 8,
            max_retries: 3,
            run: RunSettings {
                max_iterations: Some(200),
                max_time_ms: Some(600_000),
                session_ms: 60_000,
                idle_ms: 60_000,
                backoff_ms: 50,
                ..RunSettings::default()
            },
            failure_policy: FailurePolicy::Continue,
            avoid_conflicts: false,
            dir: None,
            merge: None,
            plan: None,
        }
    }
}
