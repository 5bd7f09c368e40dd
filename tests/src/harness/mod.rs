//! Real servers, coordinators, workers and repositories for end-to-end tests: everything private to a test, on free ports,
//! and gone when the test ends, also when it fails.

mod process;
mod repository;
mod world;

pub use process::Spawned;
pub use repository::Repository;
pub use world::{FeatureOptions, WorkerOptions, World, binary};
