//! What the programs ask of a machine, so that a check before the start refuses what would be refused later.

/// The oldest release of git, major and minor, that workers work with: `merge-tree --write-tree`, and pushes with an explicit
/// old head (SPEC 9.2).
pub const OLDEST_GIT: (u32, u32) = (2, 38);

/// The variable in which whoever starts workers again names the exit status of one that was told to drain.
pub const DRAINED_STATUS: &str = "RALPH_DRAINED_STATUS";
