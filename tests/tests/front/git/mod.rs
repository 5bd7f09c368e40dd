//! Branches, gates and what lands, as people see it.

pub(crate) mod branches;
pub(crate) mod bulk;
pub(crate) mod gates;
pub(crate) mod merges;
pub(crate) mod orphan_commits;
pub(crate) mod retention;
pub(crate) mod toolchains;
pub(crate) mod weakened;
