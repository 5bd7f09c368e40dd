//! TODO flow::workers

pub mod health;
pub mod heartbeat;
pub mod hello;
pub mod rescue;
pub(crate) mod usage;
