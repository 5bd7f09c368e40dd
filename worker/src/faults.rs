//! Points of a worker at which a test may kill or stop it, as described in [`ralph_shared::faults`]. With
//! `RALPH_PANIC="POINT[:NTH]"` the `NTH` passage (from 1, default 1) of the point panics instead, once in a
//! process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

static PANIC: OnceLock<Option<Panic>> = OnceLock::new();

#[derive(Debug)]
struct Panic {
    point: String,
    nth: u32,
    passed: AtomicU32,
}

/// Marks that the process passes the named point. Returns at once unless a test named the point.
///
/// # Panics
/// If a test requests it.
pub fn point(name: &str) {
    ralph_shared::faults::point(name);
    let read = || Panic::read(&std::env::var("RALPH_PANIC").ok()?);
    if PANIC
        .get_or_init(read)
        .as_ref()
        .is_some_and(|panic| panic.is_due(name))
    {
        panic!("a test wants it at {name}");
    }
}

impl Panic {
    fn read(text: &str) -> Option<Self> {
        let (point, nth) = match text.split_once(':') {
            Some((point, nth)) => (point, nth.parse().ok().filter(|nth| *nth > 0)?),
            None => (text, 1),
        };
        Some(Self {
            point: point.to_owned(),
            nth,
            passed: AtomicU32::new(0),
        })
    }

    fn is_due(&self, name: &str) -> bool {
        self.point == name && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.nth
    }
}

/// The points of a workspace, in the order of a dispatch, for tests that try each.
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

/// The points of a gate's check on a base commit.
pub const CHECK_POINTS: &[&str] = &["check.before_gate", "check.after_gate"];

/// The points of preparing a checkout with caches: filled, stored, and copied into the next one.
pub const CACHE_POINTS: &[&str] = &[
    "cache.before_fill",
    "cache.filled",
    "cache.before_copy",
    "cache.before_rename",
    "cache.kept",
    "cache.before_restore",
    "cache.restored",
];

/// The points of a checkout with submodules. Each but the last is passed once per submodule.
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
pub const DISPATCH_POINTS: &[&str] = &[
    "claim.before",
    "session.assigned",
    "session.prepared",
    "session.ended",
    "session.said",
    "report.before_spool",
    "report.spooled",
    "report.published",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_passage_of_one_point_panics() {
        let panic = Panic::read("session.said:2").unwrap();
        let passages = ["session.said", "session.ended", "session.said", "session.said"];
        assert_eq!(
            passages.map(|name| panic.is_due(name)),
            [false, false, true, false]
        );
        assert!(Panic::read("session.said").unwrap().is_due("session.said"));
        assert!(Panic::read("session.said:x").is_none());
        assert!(Panic::read("session.said:0").is_none());
    }
}
