//! Who is logged in to the page: sessions of browsers, and the codes that begin them. Both are kept as hashes and stand for a token.

use sqlx::PgConnection;
use time::OffsetDateTime;

/// A user without a request for this long was away. Seconds.
const AWAY_AFTER_S: f64 = 900.0;
/// How seldom it is noted that somebody looks. Seconds.
const NOTED_EVERY_S: f64 = 60.0;

/// A browser's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The token that it stands for.
    pub token_sha256: String,
    /// When its holder had left before they came back.
    pub left_at: Option<OffsetDateTime>,
}

/// Keeps a code that lasts so many seconds, and removes what has expired. Tells when it ends.
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

/// Uses a code up: the token that it stands for, if it lasts.
pub async fn take_code(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "delete from page_logins where sha256 = $1 and is_code and expires_at > now() returning token_sha256",
        sha256,
    )
    .fetch_optional(conn)
    .await
}

/// Begins a session that lasts so many seconds. Whoever has the token left when they were last seen with it.
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

/// A session that lasts.
pub async fn session(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<Option<Session>> {
    sqlx::query_as!(
        Session,
        "select token_sha256, left_at from page_logins where sha256 = $1 and not is_code and expires_at > now()",
        sha256,
    )
    .fetch_optional(conn)
    .await
}

/// Notes that somebody looks, unless that was noted lately.
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

/// Ends a session.
pub async fn end(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<()> {
    sqlx::query!("delete from page_logins where sha256 = $1", sha256)
        .execute(conn)
        .await?;
    Ok(())
}
