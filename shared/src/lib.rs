//! What the coordinator and the worker both need to say the same words: ids, subjects, messages and sigils.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`address`] | what of a repository's address may be shown |
//! | [`at_length`] | how work that takes long lets others go on |
//! | [`attempts`] | where attempts are at a remote |
//! | [`branch`] | which names a branch of a feature's may have |
//! | [`broker`] | how every process connects to NATS |
//! | `command_line` | what holds for both programs' command lines, for those who have one |
//! | [`document`] | how what commands print for programs says what it is |
//! | [`environment`] | variables, which may stand in files |
//! | [`faults`] | points at which a test may kill or stop a process |
//! | [`mod@file`] | how every file that a person names is read |
//! | [`ids`] | typed UUIDv7 keys and their short form for people and agents (SPEC 1) |
//! | [`kind`] | the kinds of session and dispatch (SPEC 5) |
//! | [`machine`] | which machine this is |
//! | [`config`] | keys of `.ralph.toml`, workers' tables, how the file is found |
//! | [`plain`] | text without what would steer a terminal |
//! | [`crate::agents::prices`] | what models cost by their tokens |
//! | [`crate::agents::presets`] | what is known of agents by name: how each is started, installed and logged in |
//! | [`repositories`] | which repositories may be named by who submits work |
//! | [`rights`] | what users of the broker may say and hear |
//! | [`sigil`] | what an agent says inside its message text (SPEC 4) |
//! | [`subjects`] | every NATS name that is used, and nothing else knows one (DESIGN 3) |
//! | [`tls`] | what holds for TLS of every connection |
//! | [`trust`] | whether a person agreed to a configuration that was found |
//! | [`wire`] | the messages, one file a message |
//! | [`logging`] | how every binary sets up its log |

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
pub mod tls;
pub mod trust;
pub mod wire;
