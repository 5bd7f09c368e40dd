//! Real servers, coordinators, workers and repositories for end-to-end tests. Everything is private to a
//! test, on free ports, and removed at its end, even if it fails. `RALPH_TEST_KEEP=1` keeps its folder, with
//! every log.
//!
//! | module | purpose |
//! | --- | --- |
//! | `browser` | headless Chromium |
//! | `world` | the servers of one test, and all processes on them |
//! | `options` | options of workers and features |
//! | `configuration` | a trusted `.ralph.toml` |
//! | `data_folder` | data folder of the servers |
//! | `process` | processes that are killed on drop |
//! | `repository` | a git repository for features |
//! | `servers` | faults of the servers |
//! | `stub` | the worker's end of the protocol, for unusual messages |
//! | `template` | the initial database of each test |
//! | `terminal` | a command at its own terminal |
//! | `verdict` | invariants of a feature |
//! | `waits` | waiting in tests |

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
