//! Tokens of the API, stored hashed (DESIGN 7).

use sqlx::PgConnection;
use uuid::Uuid;

/// What a token may do; each role includes the ones before it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    sqlx::Type,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
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

impl Role {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Admin => "admin",
        }
    }
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

/// A token as lists show it; the token itself is nowhere.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[allow(missing_docs)]
pub struct TokenView {
    pub name: String,
    pub role: Role,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: time::OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub revoked_at: Option<time::OffsetDateTime>,
}

/// Adds a token. `false` when its name is taken by one that is not revoked, unless that has the same id.
pub async fn create(
    conn: &mut PgConnection,
    id: Uuid,
    name: &str,
    sha256: &str,
    role: Role,
) -> sqlx::Result<bool> {
    let created = sqlx::query!(
        "insert into api_tokens (id, name, sha256, role) values ($1, $2, $3, $4)
         on conflict (name) do update
         set id = $1, sha256 = $3, role = $4, revoked_at = null, created_at = now()
         where api_tokens.revoked_at is not null or api_tokens.id = $1",
        id,
        name,
        sha256,
        role as Role,
    )
    .execute(conn)
    .await?;
    Ok(created.rows_affected() == 1)
}

/// Every token, by name.
pub async fn list(conn: &mut PgConnection) -> sqlx::Result<Vec<TokenView>> {
    sqlx::query_as!(
        TokenView,
        r#"select name, role as "role: Role", created_at, revoked_at from api_tokens order by name"#,
    )
    .fetch_all(conn)
    .await
}

/// Revokes a token. `false` when there is none of that name, or it is revoked already.
pub async fn revoke(conn: &mut PgConnection, name: &str) -> sqlx::Result<bool> {
    let revoked = sqlx::query!(
        "update api_tokens set revoked_at = now() where name = $1 and revoked_at is null",
        name,
    )
    .execute(conn)
    .await?;
    Ok(revoked.rows_affected() == 1)
}
