//! How a test starts workers and submits features.

use std::collections::BTreeMap;
use std::path::Path;

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::FailurePolicy;
use ralph_shared::wire::MergeHow;

/// A fault for a process to start with (see `ralph_shared::faults`).
#[derive(Debug, Clone)]
pub struct Fault {
    env: BTreeMap<String, String>,
}

impl Fault {
    /// `fault` is `POINT:ACTION[:NTH]`; of all processes that name the same file `once`, one is hit.
    pub fn new(fault: &str, once: &Path) -> Self {
        let once = once.display().to_string();
        let env = [("RALPH_FAULT", fault.to_owned()), ("RALPH_FAULT_ONCE", once)];
        Self {
            env: env.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    /// SIGKILL at each of `points`, once each in all processes that name the same file `once`; see [`Fault::is_past`].
    pub fn kill_at_each(points: &[&str], once: &Path) -> Self {
        Self::at_each(points, "kill", once)
    }

    /// The same with SIGSTOP.
    pub fn halt_at_each(points: &[&str], once: &Path) -> Self {
        Self::at_each(points, "stop", once)
    }

    fn at_each(points: &[&str], action: &str, once: &Path) -> Self {
        let faults: Vec<String> = points.iter().map(|point| format!("{point}:{action}")).collect();
        Self::new(&faults.join(","), once)
    }

    /// Whether a process was hit at `point`, one of several of a fault that notes it in `once`.
    pub fn is_past(point: &str, once: &Path) -> bool {
        Path::new(&format!("{}.{point}", once.display())).exists()
    }

    pub(super) fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }
}

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    pub name: String,
    /// Its data folder's name, if that is another.
    pub data: Option<String>,
    pub slots: u32,
    /// Pool, or several with commas between them.
    pub pool: String,
    /// Command of its agent; `None` for the scripted one.
    pub agent: Option<String>,
    /// Flags of the scripted agent.
    pub agent_flags: String,
    /// Further variables.
    pub env: BTreeMap<String, String>,
    /// Drain time in seconds.
    pub drain_seconds: u64,
    /// Size of a disk of its own for its data folder, in MiB.
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

    /// The same with so many slots.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// The same in another pool.
    #[must_use]
    pub fn pool(mut self, pool: &str) -> Self {
        self.pool = pool.to_owned();
        self
    }

    /// The same with a fault.
    #[must_use]
    pub fn fault(mut self, fault: &Fault) -> Self {
        self.env.extend(fault.env().clone());
        self
    }
}

/// How a feature is submitted.
#[derive(Debug, Clone)]
pub struct FeatureOptions {
    /// Pool of the tasks that name none.
    pub pool: String,
    /// Verification by an agent.
    pub verify: bool,
    /// Sessions at once.
    pub max_parallel: i32,
    /// Retries of a task.
    pub max_retries: i32,
    /// Limits and choices.
    pub run: RunSettings,
    /// What a failure does to siblings.
    pub failure_policy: FailurePolicy,
    /// Tasks that change the same run one after the other.
    pub avoid_conflicts: bool,
    /// The folder that tasks work in themselves.
    pub dir: Option<String>,
    /// How it is merged into its base in the end.
    pub merge: Option<MergeHow>,
    /// A plan that a session breaks into tasks; then the graph is empty.
    pub plan: Option<String>,
}

impl FeatureOptions {
    /// The same for another pool.
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
