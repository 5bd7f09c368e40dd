//! Limits and environment of all commands that run for workspaces.

use std::path::PathBuf;
use std::time::Duration;

use crate::sandbox::Sandbox;
use crate::session::Redactor;
use crate::workspace::clone::filters::FilterRule;
use crate::workspace::snapshot::bulk::BulkLimits;

/// Limits and environment of commands that run for workspaces.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Longest run of a git command that talks to a remote.
    pub remote_bound: Duration,
    /// Longest run of any other git command.
    pub local_bound: Duration,
    /// Longest time to sign a commit: slower signing waits for a person who isn't there.
    pub signing_bound: Duration,
    pub history: History,
    /// Folders that setup fills once.
    pub caches: Vec<CacheRule>,
    /// Folders of build output that later checkouts start with.
    pub warm: WarmRule,
    /// Size of the data folder above which reproducible data is removed. Bytes; no limit when `None`.
    pub disk_budget_bytes: Option<u64>,
    /// Days to keep data that no branch holds: files that a session without a repository leaves, and work
    /// that a server refuses by a rule. 0 keeps nothing.
    pub keep_files_days: u32,
    /// Commands that prepare a checkout before an agent or a gate works in it.
    pub setup: Vec<String>,
    /// Longest run of one command of a setup or a gate.
    pub command_bound: Duration,
    /// The user's command that takes a finished feature. It runs with the worker's rights.
    pub on_complete: Option<String>,
    /// The author of commits (`Name <address>`), instead of git's identity of this user.
    pub author: Option<String>,
    /// Whether landed commits are signed off by their author.
    pub sign_off: bool,
    /// Limits above which new files are reported before they land.
    pub bulk: BulkLimits,
    /// Filters in addition to those in the user's git configuration.
    pub filters: Vec<FilterRule>,
    /// Folders that agents may work in directly, subfolders included.
    pub dirs: Vec<PathBuf>,
    /// Folders that hold this worker's configuration: whoever can write there decides what runs on this
    /// machine.
    pub configured_in: Vec<PathBuf>,
    /// Confines these commands, which run code that agents wrote.
    pub sandbox: Sandbox,
    /// Removes secrets from the output of these commands.
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

/// The default of [`Settings::keep_files_days`].
pub const KEEP_FILES_DAYS: u32 = 7;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheRule {
    /// `a-z`, `0-9`, `-` and `_`.
    pub name: String,
    /// The folder in a checkout.
    pub path: PathBuf,
    /// The files in a checkout that identify the cache's contents. The rule doesn't apply where one is
    /// missing.
    pub key: Vec<PathBuf>,
    /// Commands that fill the cache, run only when it is empty.
    pub setup: Vec<String>,
}

/// Build output that is kept for later checkouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarmRule {
    /// Names of ignored folders, anywhere in a checkout.
    pub folders: Vec<String>,
    /// Largest size that is kept. Bytes.
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

/// The part of a repository that is fetched (SPEC 8, `[workspace]`). Objects that are already on disk stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Number of commits of each branch in a new mirror; all when `None`.
    pub depth: Option<u32>,
    /// Objects that are fetched only on demand, in the syntax of `git clone --filter`.
    pub filter: Option<String>,
}
