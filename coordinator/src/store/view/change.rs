//! The change that a task's work made.

use ralph_shared::ids::TaskId;
use sqlx::PgConnection;

/// The combined diff of all attempts at a task, as far as its last worker reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeView {
    /// Number of the attempt that reported it.
    pub attempt: i32,
    /// The commit that it is compared with.
    pub base: String,
    /// A unified diff.
    pub diff: String,
    /// Whether the diff was cut.
    pub is_cut: bool,
}

/// `None` when no attempt has changed anything, or the worker reported no change.
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
