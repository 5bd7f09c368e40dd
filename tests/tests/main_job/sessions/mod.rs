//! Agents and their sessions' results, seen from the feature.

pub(crate) mod apart;
pub(crate) mod beside;
pub(crate) mod caps;
pub(crate) mod conflicts;
pub(crate) mod dirs;
pub(crate) mod drain;
pub(crate) mod leftover_files;
pub(crate) mod long_result;
pub(crate) mod misbehaving;
pub(crate) mod rules;
pub(crate) mod session_output;
pub(crate) mod symlinks;
pub(crate) mod unavailable;
pub(crate) mod verdicts;
