//! TODO domain::routing

pub mod adaptive;
pub mod strategy;
