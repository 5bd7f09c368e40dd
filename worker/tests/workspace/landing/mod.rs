//! Landing of work on branches.

pub(crate) mod attempt_refs;
pub(crate) mod branch;
pub(crate) mod checked_out;
pub(crate) mod decided;
pub(crate) mod integrating;
pub(crate) mod merging;
pub(crate) mod operating;
pub(crate) mod pruning;
pub(crate) mod signing;
pub(crate) mod steps;
pub(crate) mod trains;
pub(crate) mod verdicts;
