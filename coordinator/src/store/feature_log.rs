//! What people did to features as a whole; what they did to tasks is in the tasks' logs.

use ralph_shared::ids::FeatureId;
use sqlx::PgConnection;

/// Notes what a person did to a feature as a whole, and why.
pub async fn add(
    conn: &mut PgConnection,
    id: FeatureId,
    actor: &str,
    what: &str,
    why: Option<&str>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into feature_logs (feature_id, actor, what, why) values ($1, $2, $3, $4)",
        id.0,
        actor,
        what,
        why,
    )
    .execute(conn)
    .await?;
    Ok(())
}
