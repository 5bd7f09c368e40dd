//! What every step goes by.

use std::time::Duration;

use crate::domain::strategy::Tiers;

/// Times, limits and names that hold for the whole coordinator.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often workers send heartbeats.
    pub heartbeat: Duration,
    /// How long a lease lasts without one.
    pub lease: Duration,
    /// How long a worker out of contact lets its sessions go on.
    pub dark_limit: Duration,
    /// From a session's cancel to the signal, and from there to the kill.
    pub grace: Duration,
    /// The models.
    pub tiers: Tiers,
    /// Whether prompts hold what earlier iterations left.
    pub memory: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(5),
            lease: Duration::from_secs(20),
            dark_limit: Duration::from_secs(600),
            grace: Duration::from_secs(5),
            tiers: Tiers::default(),
            memory: true,
        }
    }
}

impl Settings {
    /// The lease in milliseconds, as the store takes it.
    pub fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }
}
