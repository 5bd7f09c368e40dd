//! Decides which tasks may start now, in which order, and on which slots.

pub mod availability;
pub mod capability;
pub mod concurrency;
pub mod fairness;
pub mod paths;
pub mod precedence;
pub mod schedule;
