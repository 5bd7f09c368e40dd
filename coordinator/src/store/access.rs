//! Tokens of the API, stored hashed (DESIGN 7).

use sqlx::PgConnection;
use uuid::Uuid;

/// What a token may do; each role includes the ones before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, sqlx::Type, serde::Serialize, serde::Deserialize,
)]
#[sqlx(type_name = "api_role", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Read,
    /// Submit and steer.
    Submit,
    /// Everything.
    Admin,
}

/// The role of a token that is neither unknown nor revoked.
pub async fn role_of(conn: &mut PgConnection, sha256: &str) -> sqlx::Result<Option<Role>> {
    sqlx::query_scalar!(
        r#"select role as "role: Role" from api_tokens where sha256 = $1 and revoked_at is null"#,
        sha256,
    )
    .fetch_optional(conn)
    .await
}

/// Makes sure that a named token stands with this hash and role.
pub async fn ensure(conn: &mut PgConnection, name: &str, sha256: &str, role: Role) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into api_tokens (id, name, sha256, role) values ($1, $2, $3, $4)
         on conflict (name) do update set sha256 = $3, role = $4, revoked_at = null",
        Uuid::now_v7(),
        name,
        sha256,
        role as Role,
    )
    .execute(conn)
    .await?;
    Ok(())
}
