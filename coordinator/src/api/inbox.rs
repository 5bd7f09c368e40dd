//! The inbox and past events of all features.

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

/// Default number of events in an answer.
const EVENTS: i64 = 1_000;
const MOST_EVENTS: i64 = 10_000;

/// Everything that waits for a person: approvals, tasks in review, questions, limits, agents, features that
/// need a run.
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

/// Period, feature and number of events.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// Start of the period: RFC 3339.
    #[param(format = DateTime)]
    since: String,
    /// Only this feature's events: its name, or a prefix of its id.
    feature: Option<String>,
    /// Most events, the newest ones; 1000 when omitted.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<i64>,
}

/// Events since then in chronological order; if there are more, `next` is the time of the oldest one.
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
        Problem::refused(format!(
            "`since` is a time such as 2026-12-01T08:00:00Z, not `{text}`"
        ))
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
