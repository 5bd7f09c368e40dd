//! The branch that a feature lands on is its own, as its name is: what lands is decided from what landed before (DESIGN 6), which two
//! features that know nothing of each other would push over.

use sqlx::PgConnection;

/// The name of the feature that this branch of the repository belongs to, if there is one, whatever became of it. Who asks for the same
/// branch after that waits until the caller's transaction ends.
pub async fn owner(conn: &mut PgConnection, repo_id: &str, branch: &str) -> sqlx::Result<Option<String>> {
    // By statements of their own: one that waits for the lock doesn't see what was committed meanwhile.
    sqlx::query!(
        "select pg_advisory_xact_lock(hashtextextended('branch:' || $1::text || ' ' || $2::text, 0))",
        branch,
        repo_id,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query_scalar!(
        "select name from features where repo_id = $1 and branch = $2 order by id limit 1",
        repo_id,
        branch,
    )
    .fetch_optional(conn)
    .await
}
