//! Everything that waits for a person, and past events, over all features.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::api::http::app::App;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::QueryParams;
use crate::store::view::{self, EventView, InboxView, Page};

/// Default and largest number of events in an answer.
const EVENTS: i64 = 1_000;
const MOST_EVENTS: i64 = 10_000;

/// All that waits for a person: approvals, tasks that need one, questions, limits, agents, features that need a run.
#[utoipa::path(
    get,
    path = "/inbox",
    operation_id = "show_inbox",
    tag = "features",
    responses((status = 200, body = InboxView))
)]
pub async fn show(State(app): State<App>) -> Result<Json<InboxView>, Problem> {
    let lease_ms = app.deps.settings.lease_ms();
    Ok(Json(view::inbox(&mut *app.db().await?, lease_ms).await?))
}

/// Which events.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// Since when: RFC 3339.
    #[param(format = DateTime)]
    since: String,
    /// Of this feature alone: its name, or the beginning of its id.
    feature: Option<String>,
    /// At most so many, the newest; 1000 when it isn't given.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<i64>,
}

/// What happened since then, in the order of time; `next` is the time of the oldest where there are more.
#[utoipa::path(
    get,
    path = "/log",
    operation_id = "show_events",
    tag = "features",
    params(LogQuery),
    responses((status = 200, body = Page<EventView>), (status = 404))
)]
pub async fn log(
    State(app): State<App>,
    QueryParams(query): QueryParams<LogQuery>,
) -> Result<Json<Page<EventView>>, Problem> {
    let since = OffsetDateTime::parse(&query.since, &Rfc3339).map_err(|_| {
        let text = &query.since;
        Problem::refused(format!("`since` is a time as 2026-12-01T08:00:00Z, not `{text}`"))
    })?;
    let limit = query.limit.unwrap_or(EVENTS);
    if !(1..=MOST_EVENTS).contains(&limit) {
        return Err(Problem::refused(format!("`limit` is 1 to {MOST_EVENTS}")));
    }
    let mut conn = app.db().await?;
    let feature = match &query.feature {
        Some(feature) => Some(locate::feature(&mut conn, feature).await?),
        None => None,
    };
    let (items, more) = view::events(&mut conn, since, feature, limit).await?;
    let oldest = items.first().filter(|_| more);
    let next = oldest.and_then(|event| event.at.format(&Rfc3339).ok());
    Ok(Json(Page { items, next }))
}
