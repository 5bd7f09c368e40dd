//! Bounds connections, so that many clients take no descriptors from the database and the broker.
//!
//! Further connections wait in the system's queue until one ends, so a burst of clients is not refused. While
//! all slots are taken, each answer closes its connection, so that idle connections do not block the queue.
//! Streams last for hours, so they get at most three quarters of the slots, and one token at most three
//! quarters of those.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::app::App;
use super::problem::Problem;

/// One in this many slots is reserved for requests that are not streams; one in this many stream slots is
/// reserved for other tokens.
const ONE_IN: usize = 4;

/// Slots for connections, and the part for streams.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    connections: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Most streams of one token.
    most_of_one: usize,
    by_token: ByToken,
}

/// Number of streams per token, by its hash.
#[derive(Debug, Clone, Default)]
struct ByToken(Arc<Mutex<HashMap<String, usize>>>);

impl ByToken {}

/// The slot of a stream, which frees it when dropped.
#[derive(Debug)]
pub struct StreamSlot {
    _slot: OwnedSemaphorePermit,
    by_token: ByToken,
    token: String,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut by_token = self.by_token.0.lock();
        if let Some(count) = by_token.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                by_token.remove(&self.token);
            }
        }
    }
}

impl ConnectionLimits {
    /// Allows at most `most` connections; 0 means no limit.
    pub fn new(most: usize) -> Self {
        let most = match most {
            0 => Semaphore::MAX_PERMITS,
            most => most.min(Semaphore::MAX_PERMITS),
        };
        let streams = (most - most / ONE_IN).max(1);
        Self {
            connections: Arc::new(Semaphore::new(most)),
            streams: Arc::new(Semaphore::new(streams)),
            most_of_one: streams - streams / ONE_IN,
            by_token: ByToken::default(),
        }
    }

    /// Whether the next connection must wait.
    pub fn is_full(&self) -> bool {
        self.connections.available_permits() == 0
    }

    /// Waits for a free slot. The slot stays free for the accepting loop, which alone takes slots.
    pub async fn free(&self) {
        drop(self.connections.acquire().await);
    }

    /// Takes the slot of a connection; `None` when all are taken.
    pub fn connection(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }

    /// Takes the slot of a stream; `token` is the hash of its token.
    ///
    /// # Errors
    /// When the limit of all streams, or of this token's streams, is reached.
    pub fn stream(&self, token: &str) -> Result<StreamSlot, Problem> {
        let slot = Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| Problem::too_many_streams())?;
        let mut by_token = self.by_token.0.lock();
        let count = by_token.entry(token.to_owned()).or_default();
        if *count >= self.most_of_one {
            return Err(Problem::too_many_streams());
        }
        *count += 1;
        drop(by_token);
        Ok(StreamSlot {
            _slot: slot,
            by_token: self.by_token.clone(),
            token: token.to_owned(),
        })
    }
}

/// Closes the connection after this answer if others wait for a slot.
pub async fn make_room(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if app.slots.is_full() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_each_token_get_only_a_part_of_the_slots() {
        for (most, streams, of_one) in [(800, 600, 450), (4, 3, 3), (1, 1, 1)] {
            let slots = ConnectionLimits::new(most);
            let all = |token: &'static str| -> Vec<StreamSlot> {
                std::iter::from_fn(|| slots.stream(token).ok()).collect()
            };
            let taken = all("one");
            assert_eq!(taken.len(), of_one, "of {most}");
            let others = all("other");
            assert_eq!(taken.len() + others.len(), streams, "of {most}");
            drop(others);
            drop(taken);
            assert!(
                slots.by_token.0.lock().is_empty(),
                "an ended stream frees its slot"
            );
            assert_eq!(all("other").len(), of_one);
        }
    }

    #[tokio::test]
    async fn a_slot_is_free_again_when_its_connection_ends() {
        let slots = ConnectionLimits::new(1);
        slots.free().await;
        let taken = slots.connection();
        assert!(taken.is_some() && slots.is_full() && slots.connection().is_none());
        tokio::join!(slots.free(), async { drop(taken) });
        assert!(!slots.is_full());
        let unbounded = ConnectionLimits::new(0);
        let taken = (unbounded.connection(), unbounded.stream("one"));
        assert!(taken.0.is_some() && taken.1.is_ok() && !unbounded.is_full());
    }
}
