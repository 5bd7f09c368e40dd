//! Schedules, which start features at given times.

pub use ralph_api::view::ScheduleView;
use ralph_shared::ids::FeatureId;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::scheduling::schedule::Missed;

#[derive(Debug, Clone)]
pub struct NewSchedule {
    pub id: Uuid,
    pub cron: Option<String>,
    pub zone: String,
    pub missed: Missed,
    pub next_at: OffsetDateTime,
}

/// Sets a feature's schedule and replaces an older one.
pub async fn set(conn: &mut PgConnection, feature: FeatureId, new: &NewSchedule) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into schedules as s (id, feature_id, cron, zone, missed, next_at)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (feature_id) do update
         set cron = excluded.cron, zone = excluded.zone, missed = excluded.missed, next_at = excluded.next_at,
             paused = false, problem = null",
        new.id,
        feature.0,
        new.cron,
        new.zone,
        new.missed as Missed,
        new.next_at,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes a feature's schedule; `false` when it has none.
pub async fn remove(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<bool> {
    let gone = sqlx::query!("delete from schedules where feature_id = $1", feature.0)
        .execute(conn)
        .await?;
    Ok(gone.rows_affected() == 1)
}

/// Pauses or resumes a feature's schedule. Times during the pause count as missed.
pub async fn pause(conn: &mut PgConnection, feature: FeatureId, paused: bool) -> sqlx::Result<bool> {
    let changed = sqlx::query!(
        "update schedules set paused = $2 where feature_id = $1",
        feature.0,
        paused
    )
    .execute(conn)
    .await?;
    Ok(changed.rows_affected() == 1)
}

/// The schedules of all features or of one, the next to fire first, at most 1,000.
pub async fn list(conn: &mut PgConnection, feature: Option<FeatureId>) -> sqlx::Result<Vec<ScheduleView>> {
    sqlx::query_as!(
        ScheduleView,
        r#"select f.name as feature, s.cron, s.zone as time_zone, s.missed as "missed: Missed", s.next_at, s.paused,
                  s.fired_at, m.name as "made?", s.problem
           from schedules s
           join features f on f.id = s.feature_id
           left join features m on m.id = s.made_id
           where $1::uuid is null or s.feature_id = $1
           order by s.next_at, s.id
           limit 1000"#,
        feature.map(|feature| feature.0),
    )
    .fetch_all(conn)
    .await
}

/// A due schedule with its row locked.
#[derive(Debug, Clone)]
pub struct Due {
    pub feature: FeatureId,
    pub cron: Option<String>,
    pub zone: String,
    pub missed: Missed,
    pub due: OffsetDateTime,
    /// The database's time.
    pub now: OffsetDateTime,
}

/// Due schedules, the longest overdue first.
pub async fn due(conn: &mut PgConnection, most: i64) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "select id from schedules where next_at <= now() and not paused order by next_at limit $1",
        most,
    )
    .fetch_all(conn)
    .await
}

/// Locks a schedule that is still due; `None` when another coordinator holds it or has fired it.
pub async fn lock_due(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<Due>> {
    let row = sqlx::query!(
        r#"select feature_id, cron, zone, missed as "missed: Missed", next_at as "due!", now() as "now!"
           from schedules
           where id = $1 and next_at <= now() and not paused
           for update skip locked"#,
        id,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Due {
        feature: FeatureId(row.feature_id),
        cron: row.cron,
        zone: row.zone,
        missed: row.missed,
        due: row.due,
        now: row.now,
    }))
}

/// Records the result of a locked schedule: its copy, or the error.
pub async fn fired(
    conn: &mut PgConnection,
    id: Uuid,
    next_at: Option<OffsetDateTime>,
    made: &Result<FeatureId, String>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update schedules
         set next_at = $2, made_id = coalesce($3, made_id), problem = $4,
             fired_at = case when $4::text is null then now() else fired_at end
         where id = $1",
        id,
        next_at,
        made.as_ref().ok().map(|made| made.0),
        made.as_ref().err(),
    )
    .execute(conn)
    .await?;
    Ok(())
}
