//! Points of a worker at which a test may kill or stop it; how, says [`ralph_shared::faults`].

pub use ralph_shared::faults::point;

/// The points that a workspace passes, in the order of a dispatch's life, for tests that try each.
pub const POINTS: &[&str] = &[
    "prepare.before_fetch",
    "prepare.before_checkout",
    "prepare.ready",
    "snapshot.half_moved",
    "snapshot.emptied",
    "snapshot.between_trees",
    "snapshot.before_commit",
    "snapshot.before_push",
    "snapshot.after_push",
    "integrate.after_rebase",
    "integrate.after_gate",
    "integrate.kept",
    "integrate.before_decide",
    "integrate.after_decide",
    "integrate.before_push",
    "integrate.after_push",
];

/// The points of a change of branches without an agent.
pub const OPERATION_POINTS: &[&str] = &[
    "operate.before_decide",
    "operate.after_decide",
    "integrate.before_push",
    "integrate.after_push",
];

/// The points of a checkout's preparation with caches: filled, kept, and copied in by the next.
pub const CACHE_POINTS: &[&str] = &[
    "cache.before_fill",
    "cache.filled",
    "cache.before_copy",
    "cache.before_rename",
    "cache.kept",
    "cache.before_restore",
    "cache.restored",
];

/// The points of a checkout with submodules, each passed once a submodule but the last.
pub const SUBMODULE_POINTS: &[&str] = &[
    "submodule.before_fetch",
    "submodule.before_checkout",
    "submodule.before_git_dir",
    "submodule.checked_out",
    "submodules.listed",
];

/// The points around the upload of large files.
pub const LFS_POINTS: &[&str] = &["lfs.before_upload", "lfs.after_upload"];

/// The points of the removal of attempt refs.
pub const PRUNE_POINTS: &[&str] = &["prune.before_push", "prune.after_push"];

/// The points around the workspace: claim, session, report.
pub const ERRAND_POINTS: &[&str] = &[
    "claim.before",
    "session.assigned",
    "session.prepared",
    "session.ended",
    "session.said",
    "report.before_spool",
    "report.spooled",
    "report.published",
];
