//! How many connections there are at once, so that whoever opens more than that takes no descriptors from the database and the broker.
//!
//! Further ones wait in the system's queue until one ends: nobody is refused who comes in a rush. So that they don't wait for those
//! that are only kept open, each answer closes its connection while all places are taken. Streams stay for hours, so a quarter of the
//! places is never theirs; and of those that may be, a quarter is never one token's alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::app::App;
use super::problem::Problem;

/// Of so many places, one is never a stream's; and of so many of streams, one never that of a token which has all others.
const ONE_IN: usize = 4;

/// The places for connections, and those of them that streams may have.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    connections: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Streams of one token, at most.
    most_of_one: usize,
    by_token: ByToken,
}

/// How many streams each token has, by its hash.
#[derive(Debug, Clone, Default)]
struct ByToken(Arc<Mutex<HashMap<String, usize>>>);

impl ByToken {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream's place, until it is dropped.
#[derive(Debug)]
pub struct StreamPlace {
    _place: OwnedSemaphorePermit,
    by_token: ByToken,
    token: String,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut by_token = self.by_token.lock();
        if let Some(count) = by_token.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                by_token.remove(&self.token);
            }
        }
    }
}

impl ConnectionLimits {
    /// So many connections at most; 0 is no limit.
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

    /// Whether the next connection has to wait.
    pub fn are_taken(&self) -> bool {
        self.connections.available_permits() == 0
    }

    /// Comes when there is a place. It stays free for the one who accepts connections: nobody else takes any.
    pub async fn free(&self) {
        drop(self.connections.acquire().await);
    }

    /// A connection's place, which it has until it ends; `None` when all are taken.
    pub fn connection(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }

    /// A stream's place, which it has until it ends; `token` is the hash of that which it is asked with.
    ///
    /// # Errors
    /// When streams, or those of this token, have all that they may.
    pub fn stream(&self, token: &str) -> Result<StreamPlace, Problem> {
        let place = Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| Problem::too_many_streams())?;
        let mut by_token = self.by_token.lock();
        let count = by_token.entry(token.to_owned()).or_default();
        if *count >= self.most_of_one {
            return Err(Problem::too_many_streams());
        }
        *count += 1;
        drop(by_token);
        Ok(StreamPlace {
            _place: place,
            by_token: self.by_token.clone(),
            token: token.to_owned(),
        })
    }
}

/// Ends the connection with this answer if others wait for a place.
pub async fn make_room(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if app.places.are_taken() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_leave_a_part_of_the_places() {
        for (most, streams, of_one) in [(800, 600, 450), (4, 3, 3), (1, 1, 1)] {
            let places = ConnectionLimits::new(most);
            let all = |token: &'static str| -> Vec<StreamPlace> {
                std::iter::from_fn(|| places.stream(token).ok()).collect()
            };
            let taken = all("one");
            assert_eq!(taken.len(), of_one, "of {most}");
            let others = all("other");
            assert_eq!(taken.len() + others.len(), streams, "of {most}");
            drop(others);
            drop(taken);
            assert!(places.by_token.lock().is_empty(), "what ended leaves its place");
            assert_eq!(all("other").len(), of_one);
        }
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_its_connection_ends() {
        let places = ConnectionLimits::new(1);
        places.free().await;
        let taken = places.connection();
        assert!(taken.is_some() && places.are_taken() && places.connection().is_none());
        tokio::join!(places.free(), async { drop(taken) });
        assert!(!places.are_taken());
        let unbounded = ConnectionLimits::new(0);
        let taken = (unbounded.connection(), unbounded.stream("one"));
        assert!(taken.0.is_some() && taken.1.is_ok() && !unbounded.are_taken());
    }
}
