//! Schedules of features: set, list, pause, remove.

use axum::Json;
use axum::extract::State;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::body::{Done, PauseSchedule, SetSchedule};
use crate::api::http::app::App;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PathParams};
use crate::domain::scheduling::schedule::{Timetable, zone_of};
use crate::store;
use crate::store::feature::schedule::{NewSchedule, ScheduleView};
use crate::store::view::Page;

/// Lists at most 1,000 schedules, the one that fires next first.
#[utoipa::path(
    get,
    path = "/schedules",
    operation_id = "list_schedules",
    tag = "features",
    responses((status = 200, body = Page<ScheduleView>))
)]
pub async fn list(State(app): State<App>) -> Result<Json<Page<ScheduleView>>, Problem> {
    let schedules = store::feature::schedule::list(&mut *app.db().await?, None).await?;
    Ok(Json(Page::whole(schedules)))
}

/// Schedules a feature's run at a time, or copies of the feature at the times of a cron expression. Replaces
/// an earlier schedule.
#[utoipa::path(
    put,
    path = "/features/{id}/schedule",
    operation_id = "set_schedule",
    tag = "features",
    request_body = SetSchedule,
    responses((status = 200, body = ScheduleView))
)]
pub async fn set(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    Body(body): Body<SetSchedule>,
) -> Result<Json<ScheduleView>, Problem> {
    let new = checked(body)?;
    let mut conn = app.db().await?;
    let feature = locate::feature(&mut conn, &id).await?;
    store::feature::schedule::set(&mut conn, feature, &new).await?;
    let set = store::feature::schedule::list(&mut conn, Some(feature))
        .await?
        .pop();
    set.map(Json).ok_or_else(|| Problem::deleted("feature"))
}

fn checked(body: SetSchedule) -> Result<NewSchedule, Problem> {
    let zone = body.time_zone.unwrap_or_else(|| "UTC".to_owned());
    let next_at = match (&body.at, &body.cron) {
        (Some(at), None) => {
            zone_of(&zone).map_err(Problem::refused)?;
            OffsetDateTime::parse(at, &Rfc3339).map_err(|_| {
                Problem::refused(format!(
                    "`at` is a time such as 2026-12-01T08:00:00+01:00, not `{at}`"
                ))
            })?
        }
        (None, Some(cron)) => Timetable::parse(cron, &zone)
            .map_err(Problem::refused)?
            .after(OffsetDateTime::now_utc())
            .ok_or_else(|| Problem::refused("`cron` never fires"))?,
        _ => return Err(Problem::refused("give either `at` or `cron`")),
    };
    Ok(NewSchedule {
        id: Uuid::now_v7(),
        cron: body.cron,
        zone,
        missed: body.missed,
        next_at,
    })
}

/// Pauses or resumes a feature's schedule; times that pass meanwhile count as missed.
#[utoipa::path(
    patch,
    path = "/features/{id}/schedule",
    operation_id = "pause_schedule",
    tag = "features",
    request_body = PauseSchedule,
    responses((status = 200, body = Done))
)]
pub async fn pause(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    Body(body): Body<PauseSchedule>,
) -> Result<Json<Done>, Problem> {
    let mut conn = app.db().await?;
    let feature = locate::feature(&mut conn, &id).await?;
    let changed = store::feature::schedule::pause(&mut conn, feature, body.paused).await?;
    one(changed)
}

/// Removes a feature's schedule; features that it created stay.
#[utoipa::path(
    delete,
    path = "/features/{id}/schedule",
    operation_id = "remove_schedule",
    tag = "features",
    responses((status = 200, body = Done))
)]
pub async fn remove(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Done>, Problem> {
    let mut conn = app.db().await?;
    let feature = locate::feature(&mut conn, &id).await?;
    one(store::feature::schedule::remove(&mut conn, feature).await?)
}

fn one(found: bool) -> Result<Json<Done>, Problem> {
    match found {
        true => Ok(Json(Done::of(1))),
        false => Err(Problem::not_found(
            "the feature has no schedule; `schedule list` shows all schedules",
        )),
    }
}
