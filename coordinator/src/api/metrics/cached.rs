//! Totals that are counted at most once a minute, however often clients request `/metrics`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio::sync::Mutex;

use crate::api::http::problem::Problem;
use crate::api::metrics::load::Counts;
use crate::store;
use crate::store::figures;
use crate::store::memory::upkeep::Fates;

/// The last counted totals of memory and work.
#[derive(Debug, Clone, Default)]
pub struct Counted(Arc<Mutex<Option<(Instant, Fates, Counts)>>>);

impl Counted {
    /// Counts again if the last totals are too old. Concurrent requests wait without a database connection
    /// and get the same totals.
    pub(super) async fn counts(&self, db: &PgPool) -> Result<(Fates, Counts), Problem> {
        let mut last = self.0.lock().await;
        if let Some((at, fates, counts)) = &*last
            && at.elapsed() < COUNTED
        {
            return Ok((fates.clone(), counts.clone()));
        }
        let mut conn = db.acquire().await?;
        let fates = store::memory::upkeep::fates(&mut conn, None).await?;
        let counts = Counts {
            totals: figures::totals(&mut conn).await?,
            ended: figures::ended(&mut conn).await?,
            spending: store::costs::spending(&mut conn).await?,
            drifted: i64::try_from(figures::drifted(&mut conn).await?.len()).unwrap_or(i64::MAX),
            trains: figures::trains(&mut conn).await?,
        };
        *last = Some((Instant::now(), fates.clone(), counts.clone()));
        Ok((fates, counts))
    }
}

/// Lifetime of the totals: counting reads many rows, and Prometheus requests them all the time.
const COUNTED: Duration = Duration::from_secs(60);
