//! What the coordinator answers workers, and what it does about workers that fall silent or fail everything.

pub mod health;
pub mod heartbeat;
pub mod hello;
pub mod question;
pub mod rescue;
pub(crate) mod usage;
