//! Commands as people type them.

pub(crate) mod alone;
pub(crate) mod asked;
pub(crate) mod client;
pub(crate) mod commands;
pub(crate) mod completing;
pub(crate) mod diffs;
pub(crate) mod found;
pub(crate) mod glance;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod leaving;
pub(crate) mod logs;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod next;
pub(crate) mod output;
pub(crate) mod pager;
pub(crate) mod protocol;
pub(crate) mod remembered;
pub(crate) mod settings;
pub(crate) mod talk;
pub(crate) mod waits;
pub(crate) mod watching;
