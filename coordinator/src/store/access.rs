//! Tokens of the API, stored hashed (DESIGN 7).

pub use ralph_api::view::{Role, TokenView};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

/// A token's use is recorded at most once in this time, so that not every request writes. Seconds.
const NOTED_EVERY_S: f64 = 3_600.0;

/// The state of a created token that was not revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenStatus {
    /// The token is accepted.
    Holds {
        name: String,
        role: Role,
        /// Whether its use was recorded recently.
        is_noted: bool,
        /// Patterns of the repositories that it may name. Empty: any repository.
        repositories: Vec<String>,
    },
    Expired {
        name: String,
        at: OffsetDateTime,
    },
}

/// A token's state, by the database's clock; `None` when it is unknown or revoked.
pub async fn token_status(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<Option<TokenStatus>> {
    let row = sqlx::query!(
        r#"select name, role as "role: Role", repositories, case when expires_at <= now() then expires_at end as expired_at,
                  coalesce(last_used_at > now() - make_interval(secs => $2), false) as "is_noted!"
           from api_tokens
           where sha256 = $1 and revoked_at is null"#,
        sha256,
        NOTED_EVERY_S,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| match row.expired_at {
        Some(at) => TokenStatus::Expired { name: row.name, at },
        None => TokenStatus::Holds {
            name: row.name,
            role: row.role,
            is_noted: row.is_noted,
            repositories: row.repositories,
        },
    }))
}

/// Records a token's use, unless it was recorded recently.
pub async fn note_use(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "update api_tokens
         set last_used_at = now()
         where sha256 = $1 and coalesce(last_used_at <= now() - make_interval(secs => $2), true)",
        sha256,
        NOTED_EVERY_S,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Ensures that a token with this hash and role exists and never expires. A new token gets this name, and
/// replaces the token that had it.
pub async fn ensure(conn: &mut PgConnection, name: &str, sha256: &str, role: Role) -> sqlx::Result<()> {
    let known = sqlx::query!(
        "update api_tokens set role = $2, expires_at = null, revoked_at = null where sha256 = $1",
        sha256,
        role as Role,
    )
    .execute(&mut *conn)
    .await?;
    if known.rows_affected() > 0 {
        return Ok(());
    }
    sqlx::query!(
        "insert into api_tokens (id, name, sha256, role) values ($1, $2, $3, $4)
         on conflict (name) do update
         set sha256 = $3, role = $4, expires_at = null, revoked_at = null, last_used_at = null",
        Uuid::now_v7(),
        name,
        sha256,
        role as Role,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds a token that expires after `expires_in_ms`, or never. Returns its expiry; `None` when another valid
/// token has this name.
pub async fn create(
    conn: &mut PgConnection,
    id: Uuid,
    name: &str,
    sha256: &str,
    role: Role,
    expires_in_ms: Option<i64>,
    repositories: &[String],
) -> sqlx::Result<Option<Created>> {
    sqlx::query_as!(
        Created,
        "insert into api_tokens (id, name, sha256, role, expires_at, repositories)
         values ($1, $2, $3, $4, now() + $5::bigint * interval '1 millisecond', $6)
         on conflict (name) do update
         set id = $1, sha256 = $3, role = $4, expires_at = excluded.expires_at, revoked_at = null, created_at = now(),
             last_used_at = null, repositories = $6
         where api_tokens.revoked_at is not null or api_tokens.expires_at <= now() or api_tokens.id = $1
         returning expires_at",
        id,
        name,
        sha256,
        role as Role,
        expires_in_ms,
        repositories,
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// `None`: never.
    pub expires_at: Option<OffsetDateTime>,
}

pub async fn list(conn: &mut PgConnection) -> sqlx::Result<Vec<TokenView>> {
    sqlx::query_as!(
        TokenView,
        r#"select name, role as "role: Role", repositories, created_at, expires_at, coalesce(expires_at <= now(), false) as "expired!",
                  last_used_at, revoked_at
           from api_tokens
           order by name"#,
    )
    .fetch_all(conn)
    .await
}

/// Revokes a token. `false` when no unrevoked token has this name.
pub async fn revoke(conn: &mut PgConnection, name: &str) -> sqlx::Result<bool> {
    let revoked = sqlx::query!(
        "update api_tokens set revoked_at = now() where name = $1 and revoked_at is null",
        name,
    )
    .execute(conn)
    .await?;
    Ok(revoked.rows_affected() == 1)
}
