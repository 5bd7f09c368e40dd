//! Transcripts of settled dispatches.

use ralph_shared::ids::DispatchId;
use sqlx::PgConnection;

/// Keeps a transcript; again, the longer one stays.
pub async fn keep(
    conn: &mut PgConnection,
    dispatch: DispatchId,
    body: &[u8],
    entries: i32,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into transcripts (dispatch_id, body, entries) values ($1, $2, $3)
         on conflict (dispatch_id) do update
         set body = excluded.body, entries = excluded.entries, stored_at = now()
         where transcripts.entries < excluded.entries",
        dispatch.0,
        body,
        entries,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A kept transcript.
pub async fn read(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<Option<Vec<u8>>> {
    sqlx::query_scalar!("select body from transcripts where dispatch_id = $1", dispatch.0)
        .fetch_optional(conn)
        .await
}
