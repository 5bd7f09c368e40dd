//! Questions of agents to a person.

use ralph_shared::ids::{DispatchId, TaskId};
use sqlx::PgConnection;

/// Stores a session's questions, once.
pub async fn keep(
    conn: &mut PgConnection,
    dispatch: DispatchId,
    task: TaskId,
    asked: &[String],
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into questions (dispatch_id, task_id, asked) values ($1, $2, $3) on conflict (dispatch_id) do nothing",
        dispatch.0,
        task.0,
        asked,
    )
    .execute(conn)
    .await?;
    Ok(())
}
