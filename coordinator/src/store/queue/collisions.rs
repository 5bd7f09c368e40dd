//! Tasks that conflicted twice in a row: they run one after another.

use sqlx::PgConnection;
use uuid::Uuid;

/// Records when colliding tasks may be claimed again; [`enqueue_colliding`] queues them at their turn.
pub async fn put_off_colliding(
    conn: &mut PgConnection,
    tasks: &[Uuid],
    delays_ms: &[i64],
) -> sqlx::Result<()> {
    sqlx::query!(
        "update tasks t
         set not_before = now() + q.delay_ms * interval '1 millisecond'
         from unnest($1::uuid[], $2::bigint[]) as q(id, delay_ms)
         where t.id = q.id",
        tasks,
        delays_ms,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Queues, for each feature, the first of its colliding tasks, unless an attempt is landing. A task that
/// waits for its time goes behind those that are due. All other code that queues tasks omits colliding ones.
/// Returns the pools with new work.
pub async fn enqueue_colliding(conn: &mut PgConnection, features: &[Uuid]) -> sqlx::Result<Vec<String>> {
    // Nobody claims a task that is not due, so it yields its place without a race.
    sqlx::query!(
        "delete from ready_tasks r
         using tasks t
         where t.feature_id = any($1) and t.conflicts >= 2 and r.task_id = t.id and r.kind = 'work' and r.not_before > now()
           and exists (
             select 1 from tasks s
             where s.feature_id = t.feature_id and s.conflicts >= 2 and s.next_kind = 'work' and s.state = 'pending'
               and s.children = 0 and s.open_blockers = 0 and not s.held
               and (s.not_before is null or s.not_before <= now())
           )",
        features,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query_scalar!(
        r#"insert into ready_tasks (task_id, feature_id, pool, kind, agent, priority, key, not_before, since)
           select t.id, t.feature_id, texts.pool, t.next_kind, agent_needed(t.next_kind, texts.agent, runs.agent),
                  greatest(t.priority, -2147483646), key_needed(t.next_kind, texts.concurrency, f.concurrency),
                  greatest(t.not_before, now()), greatest(t.not_before, now())
           from unnest($1::uuid[]) as q(id)
           join features f on f.id = q.id and f.state = 'running'
           left join runs on runs.id = f.current_run
           cross join lateral (
             select s.*
             from tasks s
             where s.feature_id = f.id and s.conflicts >= 2 and s.next_kind = 'work' and s.state = 'pending'
               and s.children = 0 and s.open_blockers = 0 and not s.held
               and (runs.only_task is null or task_within(s.id, runs.only_task))
             order by greatest(s.not_before, now()), s.priority, s.id
             limit 1
           ) t
           join task_texts texts on texts.task_id = t.id
           where not exists (
               select 1 from tasks s
               where s.feature_id = f.id and s.conflicts >= 2 and s.children = 0
                 and (s.state = 'in_progress' or exists (select 1 from ready_tasks r where r.task_id = s.id))
             )
             and not exists (
               select 1 from integrations i
               where i.feature_id = f.id and i.state in ('turn', 'decided') and i.dispatch_id is not null
             )
           on conflict (task_id) do nothing
           returning pool"#,
        features,
    )
    .fetch_all(conn)
    .await
}
