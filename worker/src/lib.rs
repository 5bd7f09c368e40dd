//! Ralph's worker: takes work from a pool, runs one agent session a slot in a workspace of its own, and reports.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`config`] | flags, environment and the agents of this machine |
//! | [`home`] | the data folder: lock, identity, what ran when an earlier life ended |
//! | [`coordinator`] | the other end of every message: hello, claim, heartbeat, decide, blob, report |
//! | [`spool`] | reports on disk until they are settled |
//! | [`instance`], [`crate::instance::drain`] | one incarnation from its hello on; how it ends |
//! | [`crate::instance::allowances`] | what the sessions used, and may use |
//! | [`crate::instance::slot`], [`crate::instance::heartbeat`] | the two loops: claiming and working; renewing and being told |
//! | [`crate::instance::availability`] | which agents a worker offers, when one fails at the door |
//! | [`dispatch`] | one dispatch: prepare, run or integrate, push, report |
//! | [`crate::dispatch::context_files`], [`crate::dispatch::outgoing`] | texts too long for a prompt go in as files; what leaves goes without secrets |
//! | [`workspace`] | git (DESIGN 6) |
//! | [`session`] | one ACP conversation (DESIGN 5) |
//! | [`crate::instance::prune`], [`crate::instance::upkeep`] | branches of old attempts go from their remotes; mirrors are packed, caches that nobody uses go |
//! | [`sandbox`] | what an agent may reach (DESIGN 5) |
//! | [`tools`] | the user's own compilers, interpreters and package managers, inside the sandbox |
//! | [`reminder`] | what is wrong is said again while it lasts |
//! | [`disk`] | how full a disk is |
//! | [`doctor`] | whether this machine could work |
//! | [`chat`] | an interactive session at a terminal |
//! | [`color`], [`signals`] | colours of both, and how they are told to stop |
//! | [`faults`] | named points at which tests kill or stop the process |

pub mod chat;
pub mod color;
pub mod config;
pub mod coordinator;
pub mod disk;
pub mod dispatch;
pub mod doctor;
pub mod faults;
pub mod home;
pub mod instance;
pub mod reminder;
pub mod sandbox;
pub mod session;
pub mod signals;
pub mod spool;
pub mod tools;
pub mod workspace;
