//! Everything that the coordinator and the worker share: ids, subjects, messages and sigils.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`address`] | hides logins in repositories' addresses |
//! | [`at_length`] | runs long work without blocking other tasks |
//! | [`attempts`] | refs of attempts at a remote |
//! | [`branch`] | checks names of branches |
//! | [`broker`] | connects processes to NATS |
//! | `command_line` | shared parts of both programs' command lines (a feature) |
//! | [`document`] | names of documents that commands print for programs |
//! | [`environment`] | variables, also from files |
//! | [`faults`] | points at which a test may kill or stop a process |
//! | [`mod@file`] | reads files that a person names |
//! | [`ids`] | typed UUIDv7 keys and their short form for people and agents (SPEC 1) |
//! | [`kind`] | the kinds of session and dispatch (SPEC 5) |
//! | [`machine`] | identifies this machine |
//! | [`config`] | keys of `.ralph.toml`, workers' tables, the search for the file |
//! | [`plain`] | text without control of the terminal |
//! | [`crate::agents::prices`] | token prices of models |
//! | [`crate::agents::presets`] | built-in settings of agents: start, installation, login |
//! | [`repositories`] | repositories that submitted work may name |
//! | [`rights`] | permissions of the broker's users |
//! | [`sigil`] | tags in an agent's message text (SPEC 4) |
//! | [`subjects`] | every NATS name; no other module has one (DESIGN 3) |
//! | [`tls`] | shared TLS settings of connections |
//! | [`trust`] | a person's consent to a found configuration |
//! | [`wire`] | the messages, one file a message |
//! | [`logging`] | sets up the log of every binary |

pub mod address;
pub mod agents;
pub mod at_length;
pub mod attempts;
pub mod branch;
pub mod broker;
#[cfg(feature = "command-line")]
pub mod command_line;
pub mod config;
pub mod document;
pub mod environment;
pub mod faults;
pub mod file;
pub mod ids;
pub mod kind;
pub mod logging;
pub mod machine;
pub mod plain;
pub mod repositories;
pub mod rights;
pub mod sigil;
pub mod subjects;
pub mod terminal;
pub mod tls;
pub mod trust;
pub mod wire;
