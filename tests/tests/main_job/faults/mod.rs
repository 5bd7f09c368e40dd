//! Processes that are killed or stopped, disks that are full, servers that lose answers.

pub(crate) mod coordinator_killed;
pub(crate) mod disk;
pub(crate) mod forged;
pub(crate) mod git_server;
pub(crate) mod panics;
pub(crate) mod races;
pub(crate) mod reports;
pub(crate) mod restored;
pub(crate) mod server_killed;
pub(crate) mod settled;
pub(crate) mod unreadable;
pub(crate) mod worker_killed;
pub(crate) mod worker_stopped;
