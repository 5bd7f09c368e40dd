//! Ralph's worker: takes work from a pool, runs one agent session a slot in its own workspace, and reports.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`command_line`] | parses the arguments of `ralph-worker` and runs its commands |
//! | [`config`] | reads flags, environment and the agents of this machine |
//! | [`home`] | owns the data folder: lock, identity, records of running dispatches |
//! | [`coordinator`] | sends and answers messages: hello, claim, heartbeat, decide, blob, report |
//! | [`instance`] | runs one worker process from hello to the end of its drain: slots, heartbeats, limits, upkeep |
//! | [`dispatch`] | runs one dispatch: prepare, session or integration, push, report |
//! | [`spool`] | keeps reports on disk until the coordinator has settled them |
//! | [`workspace`] | git: clones, snapshots, landings (DESIGN 6) |
//! | [`session`] | one ACP conversation with an agent (DESIGN 5) |
//! | [`mcp`] | offers tools to sessions beside the sigils |
//! | [`sandbox`] | limits what an agent may reach (DESIGN 5) |
//! | [`tools`] | finds the user's compilers, interpreters and package managers, and opens them in the sandbox |
//! | [`doctor`], [`chat`] | `doctor` checks this machine; `chat` is an interactive session |
//! | [`disk`], [`reminder`], [`signals`] | disk usage, repeated warnings, stop signals |
//! | [`faults`] | named points at which tests kill or stop the process |

pub mod chat;
pub mod command_line;
pub mod config;
pub mod coordinator;
pub mod disk;
pub mod dispatch;
pub mod doctor;
pub mod faults;
pub mod home;
pub mod instance;
pub mod mcp;
pub mod reminder;
pub mod sandbox;
pub mod session;
pub mod signals;
pub mod spool;
pub mod tools;
pub mod workspace;
