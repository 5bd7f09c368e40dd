//! What is removed once it is old (SPEC 6.8, DESIGN 4).

use sqlx::PgConnection;

/// One coordinator at a time removes what is old, until the transaction ends. Whether this is the one.
pub async fn try_lock(conn: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar!(r#"select pg_try_advisory_xact_lock(hashtextextended('aged', 0)) as "locked!""#)
        .fetch_one(conn)
        .await
}

/// Removes transcripts that were stored more than so many days ago, at most `most`. How many they were.
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

/// The same of prompts; the frames, which are few, stay.
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

/// The same of what attempts were shown and nearly shown; what an open attempt was shown stays, since it isn't weighed yet.
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

/// The same of reports that were kept raw.
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

/// Removes notes of changes that are older than so many days, at most `most`. How many they were.
pub async fn changes(conn: &mut PgConnection, days: f64, most: i64) -> sqlx::Result<u64> {
    // Numbers grow with time, so the oldest stand at the beginning of the key.
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
