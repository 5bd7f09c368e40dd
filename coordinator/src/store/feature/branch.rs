//! A branch belongs to one feature, like its name: landings are decided from earlier landings (DESIGN 6), and
//! two unrelated features would overwrite each other's pushes.

use sqlx::PgConnection;

use crate::domain::names;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    pub feature: String,
    pub branch: String,
}

/// The other feature of the repository that prevents `feature` from landing on this branch, whatever its
/// state: it has the same branch, or git cannot store both names. A later request for such a branch waits
/// until the caller's transaction ends.
pub async fn owner(
    conn: &mut PgConnection,
    repo_id: &str,
    branch: &str,
    feature: &str,
) -> sqlx::Result<Option<Owned>> {
    // A separate statement, since one that waits for a lock does not see later commits. All callers lock from
    // the first part of the name on. Branches in the same folder share the locks of the parts above them.
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
