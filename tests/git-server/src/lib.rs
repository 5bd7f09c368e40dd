//! A real git server for tests: `git http-backend` behind HTTP or HTTPS with a login, and with faults on request.
//!
//! Hooks, protected refs and quotas are the repositories' own business; what only a server can do to its clients is a
//! [`Fault`].

mod backend;
mod faults;
mod server;
mod tls;

pub use faults::{Fault, Service};
pub use server::{GitServer, Login};
pub use tls::{Authority, Certificate, terminate};
