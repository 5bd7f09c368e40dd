//! Deletes old rows (SPEC 6.8, DESIGN 4).

use sqlx::PgConnection;

/// Takes the lock for deleting old rows until the transaction ends. Returns whether it was free.
pub async fn try_lock(conn: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar!(r#"select pg_try_advisory_xact_lock(hashtextextended('aged', 0)) as "locked!""#)
        .fetch_one(conn)
        .await
}

/// Deletes at most `most` transcripts that were stored more than `days` ago. Returns their number.
pub async fn transcripts(conn: &mut PgConnection, days: f64, most: i64) -> sqlx::Result<u64> {
    let gone = sqlx::query!(
        "delete from transcripts
         where dispatch_id = any(array(
           select dispatch_id from transcripts where stored_at < now() - $1 * interval '1 day' limit $2
         ))",
        days,
        most,
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}

/// Deletes old prompts likewise; the few frames stay.
pub async fn prompts(conn: &mut PgConnection, days: f64, most: i64) -> sqlx::Result<u64> {
    let gone = sqlx::query!(
        "delete from prompts
         where id = any(array(
           select id from prompts where created_at < now() - $1 * interval '1 day' limit $2
         ))",
        days,
        most,
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}

/// Deletes old records of entries that attempts were shown or nearly shown. Keeps those of open attempts,
/// which are not weighed yet.
pub async fn uses(conn: &mut PgConnection, days: f64, most: i64) -> sqlx::Result<u64> {
    let gone = sqlx::query!(
        "delete from memory_uses
         where ctid = any(array(
           select ctid from memory_uses
           where used_at < now() - $1 * interval '1 day' and (outcome is not null or left_out is not null)
           limit $2
         ))",
        days,
        most,
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}

/// Deletes old reports that could not be applied.
pub async fn bad_reports(conn: &mut PgConnection, days: f64, most: i64) -> sqlx::Result<u64> {
    let gone = sqlx::query!(
        "delete from bad_reports
         where id = any(array(
           select id from bad_reports where received_at < now() - $1 * interval '1 day' limit $2
         ))",
        days,
        most,
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}

/// Deletes at most `most` records of changes older than `days`. Returns their number.
pub async fn changes(conn: &mut PgConnection, days: f64, most: i64) -> sqlx::Result<u64> {
    // Numbers grow with time, so the oldest are at the beginning of the key.
    let gone = sqlx::query!(
        "delete from changes
         where id = any(array(select id from changes order by id limit $2)) and at < now() - $1 * interval '1 day'",
        days,
        most,
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}
