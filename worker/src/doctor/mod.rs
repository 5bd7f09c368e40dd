//! `ralph-worker doctor`: whether this machine could work, and what to do where it could not (SPEC 9.2).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`examine`](mod@examine) | the examination, from the flags to the exit code |
//! | [`agent`] | one agent: started in an empty folder inside the sandbox, shaken hands with, ended |
//! | [`parts`] | git, the sandbox, NATS |
//! | [`tools`] | the user's tools |
//! | [`gate`] | a repository's setup and gate, tried |
//! | [`inside`](mod@inside) | a terminal, a compiler and the network, tried in the sandbox |
//! | [`advice`] | what to do about an agent that failed: a decision |
//! | [`findings`], [`page`](mod@page) | what was found, as data and as text |

mod advice;
mod agent;
mod examine;
mod findings;
mod gate;
mod inside;
mod page;
mod parts;
mod tools;

pub use examine::{DoctorArgs, Output, examine};
pub use findings::{AgentFinding, Findings, Part, Status};
pub use inside::try_all;
pub use page::page;
pub use parts::sandbox;
