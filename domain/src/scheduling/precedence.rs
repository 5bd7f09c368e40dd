//! Settings that decide when a feature goes before others.

use time::OffsetDateTime;

use super::concurrency::Concurrency;

/// Changes; an inner `None` removes the value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Precedence {
    /// Weight in the division of slots.
    pub weight: Option<i32>,
    /// No task begins before this time.
    pub not_before: Option<Option<OffsetDateTime>>,
    /// Time by which it should be finished.
    pub deadline: Option<Option<OffsetDateTime>>,
    /// Whether its run ends at the deadline.
    pub stop_at_deadline: Option<bool>,
    /// The key of its tasks without one.
    pub concurrency: Option<Concurrency>,
}
