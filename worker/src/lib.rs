//! Ralph's worker: takes work from a pool, runs one agent session a slot in a workspace of its own, and reports.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`config`] | flags, environment and the agents of this machine |
//! | [`home`] | the data folder: lock, identity, what ran when an earlier life ended |
//! | [`link`] | the other end of every message: hello, claim, heartbeat, decide, blob, report |
//! | [`spool`] | reports on disk until they are settled |
//! | [`life`], [`drain`] | one incarnation from its hello on; how it ends |
//! | [`allowances`] | what the sessions used, and may use |
//! | [`slot`], [`beat`] | the two loops: claiming and working; renewing and being told |
//! | [`door`] | which agents a worker offers, when one fails at the door |
//! | [`errand`] | one dispatch: prepare, run or integrate, push, report |
//! | [`context`], [`outgoing`] | texts too long for a prompt go in as files; what leaves goes without secrets |
//! | [`workspace`] | git (DESIGN 6) |
//! | [`session`] | one ACP conversation (DESIGN 5) |
//! | [`prune`], [`upkeep`] | branches of old attempts go from their remotes; mirrors are packed, caches that nobody uses go |
//! | [`sandbox`] | what an agent may reach (DESIGN 5) |
//! | [`tools`] | the user's own compilers, interpreters and package managers, inside the sandbox |
//! | [`reminder`] | what is wrong is said again while it lasts |
//! | [`disk`] | how full a disk is |
//! | [`doctor`] | whether this machine could work |
//! | [`chat`] | an interactive session at a terminal |
//! | [`paint`], [`stop`] | colours of both, and how they are told to stop |
//! | [`faults`] | named points at which tests kill or stop the process |

pub mod allowances;
pub mod beat;
pub mod chat;
pub mod config;
pub mod context;
pub mod disk;
pub mod doctor;
pub mod door;
pub mod drain;
pub mod errand;
pub mod faults;
pub mod home;
pub mod kept;
pub mod life;
pub mod link;
pub mod outgoing;
pub mod paint;
mod place;
pub mod prune;
pub mod reminder;
pub mod sandbox;
pub mod session;
pub mod slot;
pub mod spool;
pub mod stop;
pub mod tools;
pub mod upkeep;
pub mod workspace;
