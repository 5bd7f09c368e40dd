//! Ids of traces and spans.

use std::fmt;

use ralph_shared::ids::{DispatchId, RunId, TaskId};

/// A trace's id: 16 bytes, not all zero (W3C Trace Context).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub u128);

impl TraceId {
    /// The trace of one attempt at a task, from its work to its landing: the task's id plus the attempt's
    /// number.
    pub fn of_attempt(task: TaskId, attempt: i32) -> Self {
        Self(task.0.as_u128().wrapping_add(u128::from(attempt.unsigned_abs())))
    }

    /// The trace of a run.
    pub fn of_run(run: RunId) -> Self {
        Self(run.0.as_u128())
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A span's id within its trace: 8 bytes, not all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub u64);

impl SpanId {
    /// The span of a whole dispatch: the random half of its id.
    pub fn of_dispatch(dispatch: DispatchId) -> Self {
        Self(dispatch.0.as_u64_pair().1.max(1))
    }

    pub fn of_run(run: RunId) -> Self {
        Self(run.0.as_u64_pair().1.max(1))
    }

    /// The named part of this span.
    pub fn part(self, name: &str) -> Self {
        // FNV-1a: the same in every release and on every machine.
        let mut hash = self.0 ^ 0xcbf2_9ce4_8422_2325;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(hash.max(1))
    }

    /// The agent's turn of a dispatch.
    pub(super) fn of_session(dispatch: DispatchId) -> Self {
        Self::of_dispatch(dispatch).part("session")
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The place of an agent's own spans, for `_meta.traceparent` (DESIGN 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    trace: TraceId,
    span: SpanId,
}

impl Parent {
    pub fn of_session(task: TaskId, attempt: i32, dispatch: DispatchId) -> Self {
        Self {
            trace: TraceId::of_attempt(task, attempt),
            span: SpanId::of_session(dispatch),
        }
    }
}

impl fmt::Display for Parent {
    /// W3C Trace Context's `traceparent`, sampled.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-01", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn each_attempt_has_its_own_trace_with_a_stable_id() {
        let task = TaskId(Uuid::from_u128(0x0198_9f2c_41aa_7be0_8000_0000_0000_00ff));
        let dispatch = DispatchId(Uuid::from_u128(0x0198_9f2c_41aa_7be0_9000_0000_0000_0001));
        assert_eq!(
            TraceId::of_attempt(task, 1).to_string(),
            "01989f2c41aa7be08000000000000100"
        );
        assert_ne!(TraceId::of_attempt(task, 1), TraceId::of_attempt(task, 2));
        assert_eq!(SpanId::of_dispatch(dispatch).to_string(), "9000000000000001");
        assert_ne!(
            SpanId::of_dispatch(dispatch).part("a"),
            SpanId::of_dispatch(dispatch).part("b")
        );
        let parent = Parent::of_session(task, 1, dispatch).to_string();
        let session = SpanId::of_session(dispatch);
        assert_eq!(
            parent,
            format!("00-01989f2c41aa7be08000000000000100-{session}-01")
        );
    }
}
