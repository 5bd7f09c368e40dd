//! The context of every handler.

use tokio_util::sync::CancellationToken;

use super::problem::Problem;
use super::rate::Rates;
use crate::api::feed::Feeds;
use crate::api::http::connections::ConnectionLimits;
use crate::api::http::token_cache::TokenCache;
use crate::api::metrics::cached::Counted;
use crate::api::news::News;
use crate::services::Deps;

#[derive(Debug, Clone)]
pub struct App {
    /// Database, broker, settings.
    pub deps: Deps,
    /// Streams of single features.
    pub feeds: Feeds,
    /// The stream of all changes.
    pub news: News,
    /// Validity of the tokens of open streams.
    pub token_cache: TokenCache,
    pub rates: Rates,
    /// Slots for connections and streams.
    pub slots: ConnectionLimits,
    pub counted: Counted,
    /// Ends the streams.
    pub shutdown: CancellationToken,
}

impl App {
    pub async fn db(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Postgres>, Problem> {
        Ok(self.deps.db.acquire().await?)
    }
}
