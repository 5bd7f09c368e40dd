//! Whether the tokens of open streams are still valid.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::{PgConnection, PgPool};

use crate::store;
use crate::store::access::TokenStatus;

/// How tokens of open streams stand: however many streams a token has, it is looked up once in a while.
#[derive(Debug, Clone, Default)]
pub struct Standings(Arc<Mutex<HashMap<String, (Instant, bool)>>>);

impl Standings {
    pub(super) async fn lasts(&self, db: &PgPool, hash: &str) -> bool {
        {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|_, (at, _)| at.elapsed() < AGAIN);
            if let Some((_, lasts)) = known.get(hash) {
                return *lasts;
            }
        }
        let look = async { brought(&mut *db.acquire().await?, hash).await };
        let lasts = match look.await {
            Ok(standing) => matches!(standing, Some(TokenStatus::Holds { .. })),
            Err(error) => {
                tracing::debug!(%error, "the token of a stream can't be looked up; asking again");
                true
            }
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(hash.to_owned(), (Instant::now(), lasts));
        lasts
    }
}

/// How often the token of an open stream is looked up.
pub(super) const AGAIN: Duration = Duration::from_secs(2);

/// How a token stands that came with a request. When that was is noted once in a while.
pub(super) async fn brought(conn: &mut PgConnection, hash: &str) -> sqlx::Result<Option<TokenStatus>> {
    let standing = store::access::token_status(conn, hash).await?;
    if let Some(TokenStatus::Holds { is_noted: false, .. }) = standing
        && let Err(error) = store::access::note_use(conn, hash).await
    {
        tracing::debug!(%error, "that a token is used can't be noted");
    }
    Ok(standing)
}
