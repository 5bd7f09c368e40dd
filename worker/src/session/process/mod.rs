//! The agent's process, its logins, and the processes it leaves running.

pub(crate) mod agent;
pub(crate) mod leftovers;
pub(crate) mod logins;
pub(crate) mod refreshed_login;
pub(crate) mod tail;
