//! The state of features and tasks in words, why a task waits, and what a person can do.

pub mod choices;
pub mod condition;
pub mod counts;
pub mod next;
pub mod suggestion;
pub mod why_waiting;
