//! Validity of the tokens of open streams.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sqlx::{PgConnection, PgPool};

use crate::store;
use crate::store::access::TokenStatus;

/// Caches the validity of tokens, so that a token with many streams is looked up only every two seconds.
#[derive(Debug, Clone, Default)]
pub struct TokenCache(Arc<Mutex<HashMap<String, (Instant, bool)>>>);

impl TokenCache {
    pub(super) async fn is_valid(&self, db: &PgPool, hash: &str) -> bool {
        {
            let mut known = self.0.lock();
            known.retain(|_, (at, _)| at.elapsed() < RECHECK);
            if let Some((_, is_valid)) = known.get(hash) {
                return *is_valid;
            }
        }
        let found = async { look_up(&mut *db.acquire().await?, hash).await };
        let is_valid = match found.await {
            Ok(status) => matches!(status, Some(TokenStatus::Holds { .. })),
            Err(error) => {
                tracing::debug!(%error, "could not look up the token of a stream; trying again");
                true
            }
        };
        let mut known = self.0.lock();
        known.insert(hash.to_owned(), (Instant::now(), is_valid));
        is_valid
    }
}

/// Interval between look-ups of an open stream's token.
pub(super) const RECHECK: Duration = Duration::from_secs(2);

/// Looks up a token, and records its use unless a recent use is recorded.
pub(super) async fn look_up(conn: &mut PgConnection, hash: &str) -> sqlx::Result<Option<TokenStatus>> {
    let status = store::access::token_status(conn, hash).await?;
    if let Some(TokenStatus::Holds { is_noted: false, .. }) = status
        && let Err(error) = store::access::note_use(conn, hash).await
    {
        tracing::debug!(%error, "could not record the use of a token");
    }
    Ok(status)
}
