//! The branch that a feature lands on is its own, as its name is: what lands is decided from what landed before (DESIGN 6), which two
//! features that know nothing of each other would push over.

use sqlx::PgConnection;

use crate::domain::names;

/// A branch that a feature has already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The feature's name.
    pub feature: String,
    /// Its branch.
    pub branch: String,
}

/// Which other feature of the repository than `feature` keeps it from landing on this branch, whatever became of it: its branch is the
/// same, or git can't keep the two side by side. Who asks for such a branch after that waits until the caller's transaction ends.
pub async fn owner(
    conn: &mut PgConnection,
    repo_id: &str,
    branch: &str,
    feature: &str,
) -> sqlx::Result<Option<Owned>> {
    // By a statement of its own: one that waits for a lock doesn't see what was committed meanwhile. All lock from the first part of
    // the name on; what is above a branch is shared by all that are in it.
    let above: Vec<&str> = names::above(branch).collect();
    sqlx::query!(
        "select case when branch = $2
                    then pg_advisory_xact_lock(hashtextextended('branch:' || branch || ' ' || $3::text, 0))
                    else pg_advisory_xact_lock_shared(hashtextextended('branch:' || branch || ' ' || $3::text, 0)) end
         from unnest($1::text[] || $2::text) as branch",
        &above as &[&str],
        branch,
        repo_id,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query_as!(
        Owned,
        r#"select name as feature, branch as "branch!"
           from features
           where repo_id = $1 and name <> $3
             and (branch = $2 or starts_with(branch, $2 || '/') or starts_with($2, branch || '/'))
           order by branch <> $2, id
           limit 1"#,
        repo_id,
        branch,
        feature,
    )
    .fetch_optional(conn)
    .await
}
