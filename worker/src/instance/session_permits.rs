//! Places for sessions: as many as a worker has slots. An agent that is slow to start lends its place to another task until it is
//! ready, so that agents that hang keep nobody waiting for long.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A start lends its place after this part of what it may take.
const LENT_AFTER: u32 = 4;

/// One place, held or lent.
#[derive(Debug)]
pub struct SessionPermit {
    places: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl SessionPermit {
    /// Waits for a free one.
    pub async fn take(places: &Arc<Semaphore>) -> Self {
        let place = Self {
            places: Arc::clone(places),
            held: Mutex::default(),
        };
        place.take_back().await;
        place
    }

    /// Lends it once a start has taken a part of this time; never returns.
    pub async fn lend_when_slow(&self, limit: Duration) -> Infallible {
        tokio::time::sleep(limit / LENT_AFTER).await;
        self.hold(None);
        std::future::pending().await
    }

    /// Waits for a free place where this one was lent.
    pub async fn take_back(&self) {
        let is_lent = self.held.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        if is_lent && let Ok(permit) = Arc::clone(&self.places).acquire_owned().await {
            self.hold(Some(permit));
        }
    }

    fn hold(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}
