//! The queue of ready tasks, and what keeps tasks out of it.

pub mod collisions;
pub mod concurrency_keys;
pub mod features;
pub mod path_holds;
pub mod ready;
