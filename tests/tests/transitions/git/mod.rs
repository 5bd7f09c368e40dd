//! Landings, gates and changes of branches, and unreachable git servers.

pub(crate) mod away;
pub(crate) mod gates;
pub(crate) mod landings;
pub(crate) mod merges;
pub(crate) mod operations;
pub(crate) mod requests;
pub(crate) mod reviewed;
pub(crate) mod trains;
