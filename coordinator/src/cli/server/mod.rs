//! Commands that start, check and configure a coordinator on this machine.

pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod init;
pub(crate) mod open;
pub(crate) mod serve;
pub(crate) mod up;
pub(crate) mod wait_for_servers;
