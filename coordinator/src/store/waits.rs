//! What waits for what, through blockers and parents together (SPEC 2.5).

use ralph_shared::ids::TaskId;
use sqlx::PgConnection;
use uuid::Uuid;

/// Whether the end of one of `blockers` waits for the end of `parent` or of a task above it: then a part of `parent` can't
/// wait for them. The start of a task waits for the end of its blockers and for its parent's start, its end for its own
/// start and for the ends of its parts.
pub async fn any_waits_for(conn: &mut PgConnection, blockers: &[Uuid], parent: TaskId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"with recursive above as (
             select id, parent_id from tasks where id = $2
             union
             select t.id, t.parent_id from tasks t join above a on t.id = a.parent_id
           ), waits as (
             select id, true as is_end from unnest($1::uuid[]) as b(id)
             union
             select n.id, n.is_end
             from waits w
             cross join lateral (
               select w.id, false as is_end where w.is_end
               union all
               select t.id, true from tasks t where w.is_end and t.parent_id = w.id
               union all
               select d.blocker_id, true from dependencies d where not w.is_end and d.task_id = w.id
               union all
               select t.parent_id, false from tasks t where not w.is_end and t.id = w.id and t.parent_id is not null
             ) n
           )
           select exists (select 1 from waits w join above a on a.id = w.id where w.is_end) as "any!""#,
        blockers,
        parent.0,
    )
    .fetch_one(conn)
    .await
}
