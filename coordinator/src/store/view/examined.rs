//! Facts for a person who approves: the work, the verdicts on it, and weakened tests.

use std::collections::HashMap;

pub use ralph_api::view::{ChangedLines, Examined};
use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;

use super::attention::{AttentionScope, asking};
use super::dispatch::{DispatchView, dispatches_of_task};
use super::page::{Cursor, MAX_PAGE, Page, cut};
use super::task::{TaskView, tasks};

/// Newest dispatches of a task to search for the last work and its verdicts.
const LAST_DISPATCHES: i64 = 20;

/// The tasks of a feature that wait for a person, weakened tests, or reviewed the feature, in the order of
/// creation.
pub async fn examined_page(
    conn: &mut PgConnection,
    feature: FeatureId,
    cursor: Cursor,
    limit: i64,
    lease_ms: i64,
) -> sqlx::Result<Page<Examined>> {
    let ids = sqlx::query_scalar!(
        "select t.id
         from tasks t
         where t.feature_id = $1 and ($2::uuid is null or t.id > $2)
           and (t.state = 'needs_review' or t.role = 'review'
                -- With `exists` a plan may look through all dispatches that ever were.
                or (select true
                    from dispatches d
                    where d.task_id = t.id and jsonb_array_length(d.change -> 'tests') > 0
                    limit 1))
         order by t.id
         limit $3::bigint + 1",
        feature.0,
        cursor.0,
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let (ids, next) = cut(ids, limit);
    let mut items = Vec::with_capacity(ids.len());
    // Omits a task that is deleted meanwhile.
    let mut views: HashMap<String, TaskView> = HashMap::new();
    for task in tasks(conn, &ids, lease_ms).await? {
        views.insert(task.id.clone(), task);
    }
    let asking = asking(conn, AttentionScope::Of(feature), MAX_PAGE).await?;
    let mut commands: HashMap<TaskId, Vec<String>> = asking
        .into_iter()
        .map(|task| (task.id, task.choices.all()))
        .collect();
    for id in ids.into_iter().map(TaskId) {
        if let Some(task) = views.remove(&id.short()) {
            let mut examined = examined(conn, id, task).await?;
            examined.commands = commands.remove(&id).unwrap_or_default();
            items.push(examined);
        }
    }
    Ok(Page { items, next })
}

async fn examined(conn: &mut PgConnection, id: TaskId, task: TaskView) -> sqlx::Result<Examined> {
    let mut dispatches = dispatches_of_task(conn, id, LAST_DISPATCHES).await?;
    dispatches.retain(|dispatch| dispatch.ended_at.is_some());
    let judges =
        |dispatch: &DispatchView| matches!(dispatch.kind, SessionKind::Verify | SessionKind::Integrate);
    let last = dispatches.iter().rposition(|dispatch| !judges(dispatch));
    let verdicts = last
        .map(|last| dispatches.split_off(last + 1))
        .unwrap_or_default();
    let lines = sqlx::query_scalar!(
        r#"select change ->> 'diff' as "diff!"
           from dispatches
           where task_id = $1 and change ->> 'diff' <> '' and not (change -> 'diff_cut')::boolean
             and id = (select max(d.id::text)::uuid from dispatches d where d.task_id = $1 and d.change is not null)"#,
        id.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(Examined {
        task,
        work: last.and_then(|_| dispatches.pop()),
        verdicts,
        lines: lines.map(|diff| ChangedLines::of(&diff)),
        commands: Vec::new(),
    })
}
