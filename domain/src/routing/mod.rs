//! Chooses the model of an attempt, with a reason.

pub mod adaptive;
pub mod strategy;
