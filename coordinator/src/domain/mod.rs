//! Decisions as plain functions of values: no I/O, no async, `now` as an argument (DESIGN 1.4).

pub mod counts;
pub mod document;
pub mod door;
pub mod excerpt;
pub mod fairness;
pub mod gate;
pub mod graph;
pub mod ids;
pub mod instead;
pub mod judge;
pub mod knowledge_file;
pub mod left;
pub mod lifecycle;
pub mod names;
pub mod note;
pub mod offer;
pub mod paths;
pub mod recall;
pub mod retention;
pub mod retry;
pub mod run;
pub mod run_end;
pub mod states;
pub mod steps;
pub mod strategy;
pub mod trace;
