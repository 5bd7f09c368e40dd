//! Answers to workers, and measures against workers that fall silent or fail everything.

pub mod health;
pub mod heartbeat;
pub mod hello;
pub mod question;
pub mod rescue;
pub(crate) mod usage;
