//! Logins to the page: browser sessions, and the codes that begin them. Both are stored as hashes, and stand
//! for a token.

use sqlx::PgConnection;
use time::OffsetDateTime;

/// A user without a request for this long counts as away. Seconds.
const AWAY_AFTER_S: f64 = 900.0;
/// A visit is recorded at most once in this time. Seconds.
const NOTED_EVERY_S: f64 = 60.0;

/// A browser's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Hash of its token.
    pub token_sha256: String,
    /// When its user left before they came back.
    pub left_at: Option<OffsetDateTime>,
}

/// Stores a code for `lasts_s` seconds and deletes expired rows. Returns the code's expiry.
pub async fn keep_code(
    conn: &mut PgConnection,
    sha256: &str,
    token_sha256: &str,
    lasts_s: f64,
) -> sqlx::Result<OffsetDateTime> {
    sqlx::query!("delete from page_logins where expires_at <= now()")
        .execute(&mut *conn)
        .await?;
    sqlx::query_scalar!(
        "insert into page_logins (sha256, token_sha256, is_code, expires_at)
         values ($1, $2, true, now() + make_interval(secs => $3))
         returning expires_at",
        sha256,
        token_sha256,
        lasts_s,
    )
    .fetch_one(conn)
    .await
}

/// Consumes a code. Returns its token, unless the code has expired.
pub async fn take_code(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "delete from page_logins where sha256 = $1 and is_code and expires_at > now() returning token_sha256",
        sha256,
    )
    .fetch_optional(conn)
    .await
}

/// Begins a session of `lasts_s` seconds. `left_at` is the last visit in a session of the same token.
pub async fn begin(
    conn: &mut PgConnection,
    sha256: &str,
    token_sha256: &str,
    lasts_s: f64,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into page_logins (sha256, token_sha256, is_code, expires_at, left_at)
         values ($1, $2, false, now() + make_interval(secs => $3),
                 (select max(seen_at) from page_logins where token_sha256 = $2 and not is_code))",
        sha256,
        token_sha256,
        lasts_s,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A session that has not expired.
pub async fn session(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<Option<Session>> {
    sqlx::query_as!(
        Session,
        "select token_sha256, left_at from page_logins where sha256 = $1 and not is_code and expires_at > now()",
        sha256,
    )
    .fetch_optional(conn)
    .await
}

/// Records a visit, unless one was recorded lately.
pub async fn note_visit(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "update page_logins
         set left_at = case when seen_at < now() - make_interval(secs => $2) then seen_at else left_at end, seen_at = now()
         where sha256 = $1 and seen_at < now() - make_interval(secs => $3)",
        sha256,
        AWAY_AFTER_S,
        NOTED_EVERY_S,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn end(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<()> {
    sqlx::query!("delete from page_logins where sha256 = $1", sha256)
        .execute(conn)
        .await?;
    Ok(())
}
