//! Delivery of work to the remote: attempt refs, the feature branch, and branches that people request.

pub(crate) mod branch;
pub(crate) mod deliver;
pub(crate) mod integrate;
pub(crate) mod land;
pub(crate) mod operations;
pub(crate) mod patch;
pub(crate) mod prune;
pub(crate) mod push;
pub(crate) mod rebase;
pub(crate) mod rescue;
pub(crate) mod site;
pub(crate) mod squash;
