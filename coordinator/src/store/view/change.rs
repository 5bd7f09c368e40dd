//! What a task's work changed.

use ralph_shared::ids::TaskId;
use sqlx::PgConnection;

/// The difference that all attempts at a task make together, as far as its last worker told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeView {
    /// The number of the attempt that told it.
    pub attempt: i32,
    /// The commit that it is compared with.
    pub base: String,
    /// A unified diff.
    pub diff: String,
    /// Whether there is more of it.
    pub is_cut: bool,
}

/// Reads it; `None` where no attempt has changed anything, or its worker told nothing.
pub async fn change_of_task(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<ChangeView>> {
    sqlx::query_as!(
        ChangeView,
        r#"select attempt, coalesce(change ->> 'base', '') as "base!", change ->> 'diff' as "diff!",
                  coalesce((change -> 'diff_cut')::boolean, false) as "is_cut!"
           from dispatches
           where task_id = $1 and change ->> 'diff' <> ''
           order by claimed_at desc, id desc
           limit 1"#,
        task.0,
    )
    .fetch_optional(conn)
    .await
}
