//! Idempotency keys: their request, its holder, and its answer.

use sqlx::PgConnection;
use uuid::Uuid;

/// Responses are replayed for this long.
pub const RETENTION_HOURS: i32 = 24;

/// A request with a key.
#[derive(Debug, Clone, Copy)]
pub struct Keyed<'a> {
    pub token_sha256: &'a str,
    pub key: &'a str,
    /// Of method, path and body.
    pub request_sha256: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The caller serves the request.
    Ours {
        /// Id of the object that the request creates.
        made_id: Uuid,
        /// Whether an earlier holder died and may have created the object already.
        again: bool,
    },
    /// Another holder serves the request now.
    InFlight,
    Answered {
        holder: Uuid,
        /// HTTP status.
        status: i32,
        sealed_body: Vec<u8>,
    },
    /// The key belongs to another request.
    Other,
}

/// Claims a key for `holder`. Without a renewal, the claim lasts `hold_s` seconds.
pub async fn claim(
    conn: &mut PgConnection,
    request: Keyed<'_>,
    holder: Uuid,
    hold_s: f64,
) -> sqlx::Result<Claim> {
    let ours = sqlx::query!(
        r#"insert into idempotency_keys as held
             (token_sha256, key, request_sha256, made_id, holder, held_until)
           values ($1, $2, $3, $4, $4, now() + make_interval(secs => $5))
           on conflict (token_sha256, key) do update
           set holder = $4,
               held_until = excluded.held_until,
               request_sha256 = $3,
               made_id = case when held.created_at < now() - make_interval(hours => $6) then $4 else held.made_id end,
               created_at = case when held.created_at < now() - make_interval(hours => $6) then now() else held.created_at end,
               done_count = case when held.created_at < now() - make_interval(hours => $6) then null else held.done_count end,
               status = null,
               sealed_body = null
           where held.created_at < now() - make_interval(hours => $6)
              or (held.status is null and held.held_until < now() and held.request_sha256 = $3)
           returning made_id"#,
        request.token_sha256,
        request.key,
        request.request_sha256,
        holder,
        hold_s,
        RETENTION_HOURS,
    )
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(ours) = ours {
        return Ok(Claim::Ours {
            made_id: ours.made_id,
            again: ours.made_id != holder,
        });
    }
    let found = sqlx::query!(
        "select request_sha256, holder, status, sealed_body from idempotency_keys where token_sha256 = $1 and key = $2",
        request.token_sha256,
        request.key,
    )
    .fetch_optional(conn)
    .await?;
    Ok(match found {
        Some(found) if found.request_sha256 != request.request_sha256 => Claim::Other,
        Some(found) => match (found.status, found.sealed_body) {
            (Some(status), Some(sealed_body)) => Claim::Answered {
                holder: found.holder,
                status,
                sealed_body,
            },
            _ => Claim::InFlight,
        },
        // The key was freed between the two queries; the next try finds it free.
        None => Claim::InFlight,
    })
}

/// Extends the claim by `hold_s` seconds; 0 lets others take it over at once.
pub async fn renew(
    conn: &mut PgConnection,
    holder: Uuid,
    request: Keyed<'_>,
    hold_s: f64,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update idempotency_keys set held_until = now() + make_interval(secs => $4)
         where token_sha256 = $1 and key = $2 and holder = $3 and status is null",
        request.token_sha256,
        request.key,
        holder,
        hold_s,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores the response of a served request.
pub async fn store_response(
    conn: &mut PgConnection,
    holder: Uuid,
    request: Keyed<'_>,
    status: i32,
    sealed_body: &[u8],
) -> sqlx::Result<()> {
    sqlx::query!(
        "update idempotency_keys set status = $4, sealed_body = $5
         where token_sha256 = $1 and key = $2 and holder = $3 and status is null",
        request.token_sha256,
        request.key,
        holder,
        status,
        sealed_body,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The result of the command under the key with this `made_id`, if the command already took effect: the
/// number of affected tasks or sessions.
pub async fn done(conn: &mut PgConnection, made_id: Uuid) -> sqlx::Result<Option<i64>> {
    let count = sqlx::query_scalar!(
        "select done_count from idempotency_keys where made_id = $1",
        made_id
    )
    .fetch_optional(conn)
    .await?;
    Ok(count.flatten())
}

/// Records that the command under that key took effect, in its transaction. Does nothing for a request
/// without a key.
pub async fn note_done(conn: &mut PgConnection, made_id: Uuid, count: i64) -> sqlx::Result<()> {
    sqlx::query!(
        "update idempotency_keys set done_count = $2 where made_id = $1",
        made_id,
        count
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Frees the key of a failed request.
pub async fn free(conn: &mut PgConnection, holder: Uuid, request: Keyed<'_>) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from idempotency_keys where token_sha256 = $1 and key = $2 and holder = $3 and status is null",
        request.token_sha256,
        request.key,
        holder,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes expired keys, at most 10,000 a call; returns their number.
pub async fn prune(conn: &mut PgConnection) -> sqlx::Result<u64> {
    let gone = sqlx::query!(
        "delete from idempotency_keys
         where (token_sha256, key) in (
           select token_sha256, key from idempotency_keys
           where created_at < now() - make_interval(hours => $1)
           limit 10000
         )",
        RETENTION_HOURS,
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}
