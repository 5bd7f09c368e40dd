//! Which model an attempt gets, and why.

pub mod adaptive;
pub mod strategy;
