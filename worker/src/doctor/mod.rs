//! `ralph-worker doctor`: whether this machine could work, and what to do where it could not (SPEC 9.2).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`examine`](mod@examine) | the examination, from the flags to the exit code |
//! | [`agent`] | one agent: started in an empty folder inside the sandbox, shaken hands with, ended |
//! | [`parts`] | git, the sandbox, NATS |
//! | [`tools`] | the user's tools |
//! | [`gate`] | a repository's setup and gate, tried |
//! | [`advice`] | what to do about an agent that failed: a decision |
//! | [`findings`], [`page`](mod@page) | what was found, as data and as text |

mod advice;
mod agent;
mod examine;
mod findings;
mod gate;
mod page;
mod parts;
mod tools;

pub use examine::{DoctorArgs, Output, examine};
pub use findings::{AgentFinding, Findings, Part, Status};
pub use page::page;
pub use parts::sandbox;
