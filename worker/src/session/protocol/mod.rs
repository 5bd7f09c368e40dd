//! JSON-RPC with the agent, from the handshake to the content of updates.

pub(crate) mod capabilities;
pub(crate) mod content;
pub(crate) mod handshake;
pub(crate) mod introduction;
pub(crate) mod lines;
pub(crate) mod peer;
