//! TODO domain::scheduling

pub mod availability;
pub mod capability;
pub mod concurrency;
pub mod fairness;
pub mod paths;
pub mod schedule;
