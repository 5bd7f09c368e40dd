//! Kinds of remotes and repositories.

pub(crate) mod history;
pub(crate) mod http;
pub(crate) mod https;
pub(crate) mod lfs;
pub(crate) mod packing;
pub(crate) mod refused;
pub(crate) mod shallow;
pub(crate) mod ssh;
pub(crate) mod sshd;
pub(crate) mod submodules;
