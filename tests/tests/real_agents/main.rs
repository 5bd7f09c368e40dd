//! The whole system with real agents, whose model is scripted: real agents' processes in the
//! sandbox, each by its preset, no network. `make test-agents` installs them and says in `RALPH_REAL_AGENTS` where.
#![allow(clippy::unwrap_used)]

/// Tests of a scene, one an agent.
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
