//! TODO domain::status

pub mod choices;
pub mod condition;
pub mod counts;
pub mod next;
pub mod suggestion;
pub mod why_waiting;
