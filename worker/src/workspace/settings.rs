//! Bounds and environment of everything that runs for workspaces.

use std::path::PathBuf;
use std::time::Duration;

use crate::sandbox::Sandbox;
use crate::session::Redactor;
use crate::workspace::clone::filters::FilterRule;
use crate::workspace::snapshot::bulk::BulkLimits;

/// Bounds and environment of what runs for workspaces.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Longest run of a git command that talks to a remote.
    pub remote_bound: Duration,
    /// Longest run of any other git command.
    pub local_bound: Duration,
    /// Longest that signing a commit may take: what takes longer asks somebody who isn't there.
    pub signing_bound: Duration,
    /// How much of a repository is fetched.
    pub history: History,
    /// Folders that setup fills once.
    pub caches: Vec<CacheRule>,
    /// Folders of build output that later checkouts start with.
    pub warm: WarmRule,
    /// How much disk the data folder may take before what can be had again is removed. Bytes; no bound when `None`.
    pub disk_budget_bytes: Option<u64>,
    /// For how many days it is kept what no branch holds: what a session without a repository leaves in its folder, and what a server
    /// refuses by a rule. Not at all when 0.
    pub keep_files_days: u32,
    /// Commands that prepare a checkout before an agent or a gate works in it.
    pub setup: Vec<String>,
    /// Longest run of one command of a setup or a gate.
    pub command_bound: Duration,
    /// The user's own command that a finished feature is handed to, with the worker's rights.
    pub on_complete: Option<String>,
    /// Who commits (`Name <address>`), rather than whom git knows as this user.
    pub author: Option<String>,
    /// Whether what lands is signed off by its author.
    pub sign_off: bool,
    /// Which new files are told before they land.
    pub bulk: BulkLimits,
    /// Filters that git is told of besides the user's own.
    pub filters: Vec<FilterRule>,
    /// Folders that agents may work in themselves, with all below them.
    pub dirs: Vec<PathBuf>,
    /// Folders in which this worker is configured: who may write there could say what runs on this machine.
    pub configured_in: Vec<PathBuf>,
    /// What confines these commands, which run what agents wrote.
    pub sandbox: Sandbox,
    /// What takes secrets out of what these commands print.
    pub redactor: Redactor,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            remote_bound: Duration::from_secs(15 * 60),
            local_bound: Duration::from_secs(10 * 60),
            signing_bound: Duration::from_secs(30),
            history: History::default(),
            caches: Vec::new(),
            warm: WarmRule::default(),
            disk_budget_bytes: None,
            keep_files_days: KEEP_FILES_DAYS,
            setup: Vec::new(),
            command_bound: Duration::from_secs(30 * 60),
            on_complete: None,
            author: None,
            sign_off: false,
            bulk: BulkLimits::default(),
            filters: Vec::new(),
            dirs: Vec::new(),
            configured_in: Vec::new(),
            sandbox: Sandbox::default(),
            redactor: Redactor::default(),
        }
    }
}

/// For how many days what no branch holds is kept where nobody says otherwise.
pub const KEEP_FILES_DAYS: u32 = 7;

/// A named cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheRule {
    /// Its name: `a-z`, `0-9`, `-` and `_`.
    pub name: String,
    /// The folder in a checkout.
    pub path: PathBuf,
    /// The files in a checkout whose contents decide what belongs into it; where one is missing the rule doesn't hold.
    pub key: Vec<PathBuf>,
    /// Commands that fill it, run only where it has to be filled.
    pub setup: Vec<String>,
}

/// Which folders stay warm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarmRule {
    /// Names of ignored folders, wherever they stand in a checkout.
    pub folders: Vec<String>,
    /// Size up to which they are kept. Bytes.
    pub most_bytes: u64,
}

impl Default for WarmRule {
    fn default() -> Self {
        Self {
            folders: ["target", "node_modules"].map(str::to_owned).to_vec(),
            most_bytes: 2 << 30,
        }
    }
}

/// What is fetched of a repository (SPEC 8, `[workspace]`). What is on disk already stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// How many commits of each branch a new mirror begins with; all when `None`.
    pub depth: Option<u32>,
    /// Which objects are left at the remote until they are needed, as `git clone --filter` takes it.
    pub filter: Option<String>,
}
