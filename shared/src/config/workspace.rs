//! `[workspace]`. Workers read most of it, and commands the rest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::key::{Reader, toml, words};
use crate::attempts::AttemptPlace;
use crate::config_table;
use crate::wire::MergeHow;

config_table! {
    /// `[workspace]`: what workers fetch, how they prepare a checkout, and what an agent may reach.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    ["workspace", Worker]
    pub struct WorkspaceTable {
        /// Commands that prepare a checkout before an agent or a gate works in it
        setup: Vec<String> = toml("[]"),
        /// The command that `--merge command` runs on the finished feature, with the worker's rights
        on_complete: Option<String> = words("nothing"),
        /// The author of commits, as `Name <address>`
        author: Option<String> = words("git's user on the worker"),
        /// Whether landed commits are signed off by their author
        sign_off: bool = toml("false"),
        /// Number of commits of each branch in a new mirror; merges fetch more when they need them
        depth: Option<u32> = words("all"),
        /// Objects that stay at the remote until they are needed: blob:none, blob:limit=SIZE
        filter: Option<String> = words("all are fetched"),
        /// Folders that setup fills once for each state of the files in `key`
        caches: BTreeMap<String, CacheTable> = toml("{}"),
        /// Names of ignored folders that later checkouts start with, as the last gate that passed and landed
        /// left them; [] is none
        warm: Option<Vec<String>> = toml("['target', 'node_modules']"),
        /// Total size up to which a worker keeps these folders
        warm_mb: Option<u64> = toml("2048"),
        /// Size from which a new file sends an attempt back once, in MB; 0 is never
        new_file_mb: Option<u64> = toml("20"),
        /// Number of new files from which an attempt is sent back once; 0 is never
        new_files: Option<usize> = toml("2000"),
        /// Names of folders that send an attempt back once when they are new and not ignored
        build_folders: Option<Vec<String>> = toml("['target', 'node_modules', '.venv', 'venv', '__pycache__', '.gradle', '.tox', '.mypy_cache', '.pytest_cache', '.ruff_cache', '.next', '.terraform']"),
        /// Size of a worker's data folder from which caches and unused mirrors are removed; unpushed work
        /// stays
        disk_budget_mb: Option<u64> = words("no bound"),
        /// Days for which a worker keeps files of sessions without a repository, and work that a server's
        /// rule refuses; 0 is not at all
        keep_files_days: Option<u32> = toml("7"),
        /// Names of the worker's variables that sessions, setup and gates get
        pass_env: Vec<String> = words("none"),
        /// Folders that agents may work in directly (--workspace dir)
        dirs: Vec<PathBuf> = toml("[]").var("RALPH_DIRS"),
        /// The confinement of agents: auto, landlock, bubblewrap or none
        sandbox: Option<String> = toml("'auto'").var("RALPH_SANDBOX"),
        /// Further paths that agents may read
        sandbox_read: Vec<PathBuf> = toml("[]").var("RALPH_SANDBOX_READ"),
        /// Further paths that agents may write
        sandbox_write: Vec<PathBuf> = toml("[]").var("RALPH_SANDBOX_WRITE"),
        /// The network access of agents: open, none, or only a proxy
        sandbox_network: Option<String> = toml("'open'").var("RALPH_SANDBOX_NETWORK").secret(),
        /// Memory of all of a session's processes together in MiB
        session_memory_mb: Option<u64> = words("three quarters of the machine's"),
        /// Processes and threads of a session
        session_processes: Option<u32> = toml("4096"),
        /// CPU time of each of a session's processes
        session_cpu_seconds: Option<u64> = words("no limit"),
        /// Size of each file that a session writes in MiB
        session_file_mb: Option<u64> = toml("16384"),
        /// Space that must stay free on a session's disk in MiB: a session that holds as much is ended when
        /// less is free
        session_disk_reserve_mb: Option<u64> = toml("256"),
        .. {
            /// Keys that are unknown here; some are the coordinator's or the command line's.
            #[serde(flatten)]
            pub unknown: BTreeMap<String, toml::Value>,
        }
    }
}

/// A folder that setup fills once for each state of its key files.
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
    /// `[workspace]`; workers read the rest of it.
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["workspace", Run]
    pub struct Workspace {
        /// The identity with which repositories share memory and names
        repo_id: Option<String> = words("the origin's address, normalised"),
        /// Days for which branches of attempts of ended features stay at the remote; 0 is forever
        keep_attempts_days: Option<u32> = toml("30").read_by(Reader::Coordinator),
        /// The place of attempts at the remote: refs of their own (refs), or branches if a server accepts
        /// nothing else (branches)
        attempts: AttemptPlace = toml("'refs'").read_by(Reader::Coordinator),
        /// The way in which a finished feature is merged into its base: ff, merge, squash, command
        merge: Option<MergeHow> = words("left on its own branch").var("RALPH_MERGE").flag("merge"),
    }
}
