//! Refers a command for the sessions of a split task to the task's parts.

use ralph_shared::ids::TaskId;
use sqlx::PgConnection;

use crate::domain::states::TaskState;
use crate::domain::status::suggestion;
use crate::store;

/// Lists the parts of `whole` whose state allows the command.
pub(in crate::flow) async fn refer(
    conn: &mut PgConnection,
    whole: TaskId,
    verb: &str,
    fits: impl Fn(TaskState) -> bool,
) -> sqlx::Result<String> {
    let parts = store::task::open_leaves(conn, whole).await?;
    let fitting = parts.into_iter().filter(|(_, state)| fits(*state));
    let fitting: Vec<TaskId> = fitting.map(|(part, _)| part).collect();
    Ok(suggestion::of_whole(whole, verb, &fitting))
}
