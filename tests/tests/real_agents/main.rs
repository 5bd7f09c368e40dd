//! The whole system with real agents' processes in the sandbox, each configured by its preset, with a
//! scripted model and no network. `make test-agents` installs the agents and sets `RALPH_REAL_AGENTS` to
//! their folder.
#![allow(clippy::unwrap_used)]

/// Declares a test of a scene for each agent.
macro_rules! with_each {
    ($scene:path; $($name:ident: $real:ident;)*) => { $(
        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "needs real agents: make test-agents"]
        async fn $name() {
            $scene($crate::real::Real::$real).await;
        }
    )* };
}

mod handshake;
mod mcp;
mod model;
mod real;
mod stage;
mod system;
mod tasks;
