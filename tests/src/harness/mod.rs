//! Real servers, coordinators, workers and repositories for end-to-end tests: everything private to a test, on free ports,
//! and gone when the test ends, also when it fails. `RALPH_TEST_KEEP=1` keeps its folder, with every log.
//!
//! | module | what it does |
//! | --- | --- |
//! | `browser` | headless Chromium |
//! | `world` | the servers of one test, and everything that it starts on them |
//! | `options` | how workers are started and features submitted |
//! | `configuration` | a `.ralph.toml` that a person trusts |
//! | `data_folder` | where the servers keep their data |
//! | `process` | processes that are gone when the test lets go of them |
//! | `repository` | a git repository that a feature works on |
//! | `servers` | faults of the servers |
//! | `stub` | the worker's end of the protocol, to say what no worker would |
//! | `template` | the database that each test begins with |
//! | `terminal` | a command at a terminal of its own |
//! | `verdict` | what must hold of a feature whatever happened |
//! | `waits` | what a test waits for |

mod browser;
mod configuration;
mod data_folder;
mod options;
mod process;
mod repository;
mod servers;
mod stub;
mod template;
mod terminal;
mod verdict;
mod waits;
mod world;

pub use browser::Browser;
pub use configuration::configure;
pub use options::{Fault, FeatureOptions, WorkerOptions};
pub use process::{Spawned, bound};
pub use repository::Repository;
pub use stub::Stub;
pub use terminal::Terminal;
pub use waits::{Look, until, until_blocking};
pub use world::{World, binary};
