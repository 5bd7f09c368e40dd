//! Decisions as plain functions of values: no I/O, no async, `now` as an argument (DESIGN 1.4).

pub mod fairness;
pub mod retry;
pub mod states;
