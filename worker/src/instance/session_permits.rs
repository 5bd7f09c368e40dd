//! Permits for sessions: as many as a worker has slots. An agent that is slow to start lends its permit to
//! another task until it is ready, so that hanging agents block nobody for long.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A start lends its permit after this fraction of its time limit.
const LENT_AFTER: u32 = 4;

/// One permit, held or lent.
#[derive(Debug)]
pub struct SessionPermit {
    places: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl SessionPermit {
    /// Waits for a free permit.
    pub async fn take(places: &Arc<Semaphore>) -> Self {
        let place = Self {
            places: Arc::clone(places),
            held: Mutex::default(),
        };
        place.take_back().await;
        place
    }

    /// Lends the permit when a start has taken part of this time. Never returns.
    pub async fn lend_when_slow(&self, limit: Duration) -> Infallible {
        tokio::time::sleep(limit / LENT_AFTER).await;
        self.hold(None);
        std::future::pending().await
    }

    /// Waits for a free permit if this one was lent.
    pub async fn take_back(&self) {
        let is_lent = self.held.lock().is_none();
        if is_lent && let Ok(permit) = Arc::clone(&self.places).acquire_owned().await {
            self.hold(Some(permit));
        }
    }

    fn hold(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.held.lock() = permit;
    }
}
