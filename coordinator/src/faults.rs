//! Points at which a test may kill or stop a coordinator; see [`ralph_shared::faults`].

pub use ralph_shared::faults::point;

/// All points, in the order of a task's life. At `before_commit` nothing has happened. At `after_commit`
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

/// Points of a request with an `Idempotency-Key`, after its effect and before its answer is stored.
pub const REQUEST_POINTS: &[&str] = &["answer.before_keep"];
