//! TODO store::queue

pub mod collisions;
pub mod concurrency_keys;
pub mod features;
pub mod path_holds;
pub mod ready;
