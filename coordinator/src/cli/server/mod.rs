//! Commands that start and check a coordinator on this machine.

pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod serve;
pub(crate) mod up;
pub(crate) mod wait_for_servers;
