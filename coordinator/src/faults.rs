//! Points of a coordinator at which a test may kill or stop it; how, says [`ralph_shared::faults`].

pub use ralph_shared::faults::point;

/// All of them, in the order in which a task's way passes them. Before a commit nothing has happened; after it
/// everything has, and nobody knows yet.
pub const POINTS: &[&str] = &[
    "hello.before_commit",
    "hello.after_commit",
    "ticket.before_issue",
    "claim.before_commit",
    "claim.after_commit",
    "prompt.before_commit",
    "claim.before_answer",
    "heartbeat.before_commit",
    "heartbeat.after_commit",
    "report.before_commit",
    "report.after_commit",
    "report.before_ack",
    "decide.before_commit",
    "decide.after_commit",
    "rescue.before_commit",
    "rescue.after_commit",
];

/// Those that a request with an `Idempotency-Key` passes: what it asked for is done, and its answer isn't kept yet.
pub const REQUEST_POINTS: &[&str] = &["answer.before_keep"];
