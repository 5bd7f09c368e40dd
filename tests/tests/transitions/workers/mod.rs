//! Leases, hellos, repeated claims, and deaths.

pub(crate) mod asked_again;
pub(crate) mod at_once;
pub(crate) mod crash;
pub(crate) mod deaths;
pub(crate) mod heirs;
pub(crate) mod hello;
pub(crate) mod leases;
pub(crate) mod poison;
