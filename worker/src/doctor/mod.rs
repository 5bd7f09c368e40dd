//! `ralph-worker doctor`: checks whether this machine can work, and says what to do if it can't (SPEC 9.2).
//!
//! | module | content |
//! | --- | --- |
//! | [`examine`](mod@examine) | the check, from flags to findings |
//! | [`agent`] | one agent: starts it in an empty folder inside the sandbox, opens a session and ends it |
//! | [`parts`] | git, the sandbox, NATS |
//! | [`tools`] | the user's tools |
//! | [`gate`] | tries a repository's setup and gate |
//! | [`inside`](mod@inside) | tries a terminal, a compiler and the network in the sandbox |
//! | [`advice`] | decides what to do about an agent that failed |
//! | [`findings`], [`page`](mod@page) | the findings, as data and as text |

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
