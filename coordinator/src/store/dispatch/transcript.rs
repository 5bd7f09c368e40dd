//! Transcripts of settled dispatches.

use ralph_shared::ids::{DispatchId, Incarnation};
use ralph_shared::wire::{RetainedTranscript, TranscriptBatch};
use sqlx::PgConnection;
use uuid::Uuid;

/// The worker that may send a dispatch's transcript, as the incarnation that holds the dispatch or as a later
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    worker: String,
    lives: [Option<Incarnation>; 2],
}

impl Holder {
    /// Whether the holder sent a batch. All workers may share one login at the broker, so any of them can
    /// send one.
    pub fn sent(&self, batch: &TranscriptBatch) -> bool {
        let Some(origin) = &batch.origin else {
            return false;
        };
        origin.worker == self.worker && self.lives.contains(&Some(origin.incarnation))
    }
}

/// The worker that may send a dispatch's transcript; `None` for an unknown dispatch.
pub async fn holder(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<Option<Holder>> {
    let row = sqlx::query!(
        r#"select d.worker, d.incarnation, w.incarnation as "heir?"
           from dispatches d
           left join worker_lives l on l.incarnation = d.incarnation
           left join workers w on w.name = d.worker and coalesce(l.data_id, w.data_id) = w.data_id
           where d.id = $1"#,
        dispatch.0
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Holder {
        worker: row.worker,
        lives: [Some(Incarnation(row.incarnation)), row.heir.map(Incarnation)],
    }))
}

/// Transcripts that a worker may delete: all of their entries are stored, or their dispatch is gone.
pub async fn cared_for(
    conn: &mut PgConnection,
    held: &[RetainedTranscript],
) -> sqlx::Result<Vec<DispatchId>> {
    let ids: Vec<Uuid> = held.iter().map(|one| one.dispatch.0).collect();
    let entries: Vec<i64> = held
        .iter()
        .map(|one| i64::try_from(one.entries).unwrap_or(i64::MAX))
        .collect();
    let rows = sqlx::query_scalar!(
        r#"select q.id as "id!"
           from unnest($1::uuid[], $2::bigint[]) as q(id, entries)
           left join dispatches d on d.id = q.id
           left join transcripts t on t.dispatch_id = q.id
           where d.id is null or coalesce(t.seen, t.entries) >= q.entries"#,
        &ids,
        &entries,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(DispatchId).collect())
}

/// Stores a transcript with its number of `seen` entries, unless the stored one has as many or more.
pub async fn keep(
    conn: &mut PgConnection,
    dispatch: DispatchId,
    body: &[u8],
    entries: i32,
    seen: i64,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into transcripts (dispatch_id, body, entries, seen) values ($1, $2, $3, $4)
         on conflict (dispatch_id) do update
         set body = excluded.body, entries = excluded.entries, seen = excluded.seen, stored_at = now()
         where coalesce(transcripts.seen, transcripts.entries) < excluded.seen",
        dispatch.0,
        body,
        entries,
        seen,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn read(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<Option<Vec<u8>>> {
    sqlx::query_scalar!("select body from transcripts where dispatch_id = $1", dispatch.0)
        .fetch_optional(conn)
        .await
}

/// The dispatches that are over and quiet: five seconds after their report. A superseded session sends until
/// it hears of that, and a lost one may return; both count as quiet after half an hour.
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
