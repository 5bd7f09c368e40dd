//! Decisions as plain functions of values: no I/O, no async, `now` as an argument (DESIGN 1.4).

pub mod budget;
pub mod failure;
pub mod gate;
pub mod graph;
pub mod ids;
pub mod names;
pub mod outcome;
pub mod prompt;
pub mod question;
pub mod recall;
pub mod retention;
pub mod routing;
pub mod run;
pub mod scheduling;
pub mod states;
pub mod status;
pub mod steps;
pub mod text;
pub mod trace;
pub mod train;
