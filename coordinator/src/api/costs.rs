//! Costs, and the remainder of each limit.

use axum::Json;
use axum::extract::State;
use ralph_api::body::SetBudget;
pub use ralph_api::view::{BudgetsView, CostsView};
use ralph_shared::ids::{FeatureId, TaskId};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::api::http::app::App;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PathParams, QueryParams};
use crate::domain::budget::estimate::{self, Estimate};
use crate::domain::budget::levels::{Key, Level};
use crate::store::budget::Tasks;
use crate::store::costs::{By, CostRow};
use crate::{flow, store};

/// Period and grouping of costs.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CostsQuery {
    /// Grouping; by feature when omitted.
    #[serde(default)]
    by: By,
    /// Count only live sessions and sessions that ended after this time (RFC 3339).
    since: Option<String>,
}

/// Costs by feature, task, model, agent, account, day or kind of session.
#[utoipa::path(
    get,
    path = "/costs",
    operation_id = "list_costs",
    tag = "runs",
    params(CostsQuery),
    responses((status = 200, body = CostsView))
)]
pub async fn costs(
    State(app): State<App>,
    QueryParams(query): QueryParams<CostsQuery>,
) -> Result<Json<CostsView>, Problem> {
    let since = query.since.as_deref().map(|text| {
        OffsetDateTime::parse(text, &Rfc3339).map_err(|_| {
            Problem::refused(format!(
                "`since` is a time such as 2026-12-01T08:00:00Z, not `{text}`"
            ))
        })
    });
    let since = since.transpose()?;
    let items = store::costs::costs(&mut *app.db().await?, query.by, since).await?;
    let mut total = CostRow::default();
    items.iter().for_each(|row| total.add(row));
    Ok(Json(CostsView {
        by: query.by,
        since,
        items,
        total,
    }))
}

/// Limits at every level, with the spent, in-flight and remaining amounts.
#[utoipa::path(
    get,
    path = "/budgets",
    operation_id = "list_budgets",
    tag = "runs",
    responses((status = 200, body = BudgetsView))
)]
pub async fn budgets(State(app): State<App>) -> Result<Json<BudgetsView>, Problem> {
    let mut conn = app.db().await?;
    let ceilings = &app.deps.settings.levels;
    let levels = store::budget::read(&mut conn, ceilings, Tasks::Begun, true).await?;
    let items = store::view::budgets(&mut conn, &levels).await?;
    Ok(Json(BudgetsView { items }))
}

/// Sets a limit while work runs. A limit below the spent amount lets nothing new start, and ends live
/// sessions in an orderly way.
#[utoipa::path(
    put,
    path = "/budgets/{level}",
    operation_id = "set_budget",
    tag = "runs",
    request_body = SetBudget,
    responses((status = 200, body = BudgetsView))
)]
pub async fn set_budget(
    State(app): State<App>,
    PathParams(level): PathParams<String>,
    Body(options): Body<SetBudget>,
) -> Result<Json<BudgetsView>, Problem> {
    let known = Level::ALL.map(|one| one.into_str()).join(", ");
    let level = Level::of(&level).ok_or_else(|| {
        Problem::refused(format!(
            "`{level}` is no level of a budget: expected one of {known}"
        ))
    })?;
    if options.cost_usd.is_some_and(|usd| !usd.is_finite() || usd < 0.0)
        || options.tokens.is_some_and(|n| n < 0)
    {
        return Err(Problem::refused("a limit is 0 or more; 0 is no limit"));
    }
    let key = key(&app, level, options.name.as_deref()).await?;
    let cost_usd = options.cost_usd.map(|usd| Some(usd).filter(|usd| *usd > 0.0));
    let tokens = options.tokens.map(|n| Some(n).filter(|n| *n > 0));
    store::budget::set(&mut *app.db().await?, &key, cost_usd, tokens).await?;
    let signals = flow::finish::limits::tick(&app.deps.db, &app.deps.settings).await?;
    app.deps.bus.emit(signals).await;
    if level == Level::Feature && options.resume.unwrap_or(true) {
        let db = &app.deps.db;
        let feature = key.1.parse().ok().map(FeatureId);
        let raised = || flow::finish::resume::of_raised_budget(db, feature);
        app.deps.bus.emit(store::retry_serialization(raised).await?).await;
    }
    budgets(State(app)).await
}

/// The level and the object of a limit.
async fn key(app: &App, level: Level, name: Option<&str>) -> Result<Key, Problem> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok((level, String::new()));
    };
    if !level.is_named() {
        let word = level.into_str();
        return Err(Problem::refused(format!(
            "a limit of the {word} has no name; leave `{name}` out"
        )));
    }
    let mut conn = app.db().await?;
    Ok(match level {
        Level::Task if name.contains('/') || TaskId::parse_prefix(name).is_ok() => {
            (level, locate::task(&mut conn, name).await?.0.to_string())
        }
        Level::Session | Level::Task | Level::Feature => {
            (level, locate::feature(&mut conn, name).await?.0.to_string())
        }
        _ => (level, name.to_owned()),
    })
}

/// Parameters of an estimate.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EstimateQuery {
    /// Identity of the repository.
    repo_id: String,
    /// Number of remaining tasks.
    tasks: i64,
    /// Number of tasks that run at once; 1 when omitted.
    #[serde(default = "one")]
    side_by_side: i64,
}

fn one() -> i64 {
    1
}

/// Estimated cost and duration of tasks, from past tasks of their repository.
#[utoipa::path(
    get,
    path = "/estimate",
    operation_id = "estimate",
    tag = "runs",
    params(EstimateQuery),
    responses((status = 200, body = Estimate))
)]
pub async fn estimate(
    State(app): State<App>,
    QueryParams(query): QueryParams<EstimateQuery>,
) -> Result<Json<Estimate>, Problem> {
    let before = store::costs::before(&mut *app.db().await?, &query.repo_id).await?;
    Ok(Json(estimate::estimate(before, query.tasks, query.side_by_side)))
}
