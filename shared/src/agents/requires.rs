//! Requirements on a machine, so that a check before the start finds what would fail later.

/// The oldest release of git, major and minor, that workers work with: `merge-tree --write-tree`, and pushes
/// with an explicit old head (SPEC 9.2).
pub const OLDEST_GIT: (u32, u32) = (2, 38);

/// The variable with the exit status of a drained worker, which the program that restarts workers sets.
pub const DRAINED_STATUS: &str = "RALPH_DRAINED_STATUS";
