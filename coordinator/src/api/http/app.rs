//! What every handler works with.

use tokio_util::sync::CancellationToken;

use super::problem::Problem;
use super::rate::Rates;
use crate::api::feed::Feeds;
use crate::api::http::connections::ConnectionLimits;
use crate::api::http::standings::Standings;
use crate::api::metrics::cached::Counted;
use crate::api::news::News;
use crate::services::Deps;

/// The database, the broker, and shared state of streams.
#[derive(Debug, Clone)]
pub struct App {
    /// Database, broker, settings.
    pub deps: Deps,
    /// Features that somebody watches.
    pub feeds: Feeds,
    /// Whoever watches them all.
    pub news: News,
    /// Whether tokens of open streams last.
    pub standings: Standings,
    /// How fast tokens ask.
    pub rates: Rates,
    /// Slots for connections and streams.
    pub places: ConnectionLimits,
    /// Cached counts of the memory's entries by fate.
    pub counted: Counted,
    /// Ends the streams.
    pub shutdown: CancellationToken,
}

impl App {
    pub async fn db(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Postgres>, Problem> {
        Ok(self.deps.db.acquire().await?)
    }
}
