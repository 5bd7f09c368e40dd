//! `[workspace]`, of which workers read the most part and commands the rest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::key::{Reader, toml, words};
use crate::attempts::AttemptPlace;
use crate::config_table;
use crate::wire::MergeHow;

config_table! {
    /// `[workspace]`: what is fetched, what prepares a checkout, what an agent may reach.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    ["workspace", Worker]
    pub struct WorkspaceTable {
        /// Commands that prepare a checkout before an agent or a gate works in it
        setup: Vec<String> = toml("[]"),
        /// The command that `--merge command` runs on the finished feature, with the worker's rights
        on_complete: Option<String> = words("nothing"),
        /// Who commits, as `Name <address>`
        author: Option<String> = words("whom git knows as the worker's user"),
        /// Whether what lands is signed off by its author
        sign_off: bool = toml("false"),
        /// How many commits of each branch a new mirror begins with; more are fetched when a merge needs them
        depth: Option<u32> = words("all"),
        /// Which objects stay at the remote until they are needed: blob:none, blob:limit=SIZE
        filter: Option<String> = words("all are fetched"),
        /// Folders that setup fills once for each state of the files in `key`
        caches: BTreeMap<String, CacheTable> = toml("{}"),
        /// Names of ignored folders whose content, from the last gate that passed and landed, later checkouts start with; [] is none
        warm: Option<Vec<String>> = toml("['target', 'node_modules']"),
        /// Size of these folders, together, up to which a worker keeps them
        warm_mb: Option<u64> = toml("2048"),
        /// Size from which on a new file sends an attempt back once, in MB; 0 is never
        new_file_mb: Option<u64> = toml("20"),
        /// Number of new files from which on an attempt is sent back once; 0 is never
        new_files: Option<usize> = toml("2000"),
        /// Names of folders that send an attempt back once when they are new and not ignored
        build_folders: Option<Vec<String>> = toml("['target', 'node_modules', '.venv', 'venv', '__pycache__', '.gradle', '.tox', '.mypy_cache', '.pytest_cache', '.ruff_cache', '.next', '.terraform']"),
        /// What a worker's data folder may take before caches and unused mirrors go; unpushed work stays
        disk_budget_mb: Option<u64> = words("no bound"),
        /// How long a worker keeps what a session without a repository leaves, or what a server's rule refuses; 0 is not at all
        keep_files_days: Option<u32> = toml("7"),
        /// Names of the worker's variables that sessions, setup and gates get
        pass_env: Vec<String> = words("none"),
        /// Folders that agents may work in themselves (--workspace dir)
        dirs: Vec<PathBuf> = toml("[]").var("RALPH_DIRS"),
        /// What confines agents: auto, landlock, bubblewrap or none
        sandbox: Option<String> = toml("'auto'").var("RALPH_SANDBOX"),
        /// What agents may read besides
        sandbox_read: Vec<PathBuf> = toml("[]").var("RALPH_SANDBOX_READ"),
        /// What agents may write besides
        sandbox_write: Vec<PathBuf> = toml("[]").var("RALPH_SANDBOX_WRITE"),
        /// What agents reach of the network: open, none, or a proxy alone
        sandbox_network: Option<String> = toml("'open'").var("RALPH_SANDBOX_NETWORK").secret(),
        /// Memory of a session's processes together in MiB
        session_memory_mb: Option<u64> = words("three quarters of the machine's"),
        /// Processes and threads of a session
        session_processes: Option<u32> = toml("4096"),
        /// CPU time of each of its processes
        session_cpu_seconds: Option<u64> = words("no limit"),
        /// Size of each file that it writes in MiB
        session_file_mb: Option<u64> = toml("16384"),
        /// What has to stay free of a session's disk in MiB: one that holds as much is ended when less is left
        session_disk_reserve_mb: Option<u64> = toml("256"),
        .. {
            /// Keys that nobody here knows; some are the coordinator's or the command line's.
            #[serde(flatten)]
            pub unknown: BTreeMap<String, toml::Value>,
        }
    }
}

/// A folder that setup fills once for each state of the files that decide on it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    /// The folder in a checkout.
    pub path: PathBuf,
    /// Files in a checkout.
    pub key: Vec<PathBuf>,
    /// Commands that fill it.
    #[serde(default)]
    pub setup: Vec<String>,
}

config_table! {
    /// `[workspace]`; the rest of it is the workers'.
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["workspace", Run]
    pub struct Workspace {
        /// Whose memory and names a repository shares
        repo_id: Option<String> = words("the origin's address, normalised"),
        /// How long branches of attempts of features that ended stay at the remote; 0 is for ever
        keep_attempts_days: Option<u32> = toml("30").read_by(Reader::Coordinator),
        /// Where attempts stand at the remote: in refs of their own (refs), or in branches where a server takes nothing else (branches)
        attempts: AttemptPlace = toml("'refs'").read_by(Reader::Coordinator),
        /// How a finished feature comes into its base: ff, merge, squash, command
        merge: Option<MergeHow> = words("left on its own branch").var("RALPH_MERGE").flag("merge"),
    }
}
