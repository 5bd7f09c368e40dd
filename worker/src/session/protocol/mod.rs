//! TODO session::protocol

pub(crate) mod capabilities;
pub(crate) mod content;
pub(crate) mod handshake;
pub(crate) mod introduction;
pub(crate) mod lines;
pub(crate) mod peer;
