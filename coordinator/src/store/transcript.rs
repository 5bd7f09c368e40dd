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

/// Which of these dispatches have ended, so that nothing more of them is under way: five seconds after their report. What a person took from
/// its worker talks on until it hears that, and one that was lost may be heard again: either is waited for half an hour at most.
pub async fn settled(conn: &mut PgConnection, ids: &[uuid::Uuid]) -> sqlx::Result<Vec<DispatchId>> {
    let rows = sqlx::query_scalar!(
        "select id from dispatches
         where id = any($1)
           and state in ('settled', 'superseded', 'lost')
           and settled_at < now() - case when state = 'settled' or duration_ms is not null then interval '5 seconds'
                                         else interval '30 minutes' end",
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(DispatchId).collect())
}
