//! Paths of tasks, and tasks that wait because another one changes the same paths (`--avoid-conflicts`).

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::scheduling::capability::Capability;
use crate::domain::scheduling::paths::{Busy, Candidate, Footprint, MAX_WAITING, Waiting};

use super::ready::Dequeued;

/// Most known files of a task, those of its newest attempts first.
const MAX_FILES: i64 = 1_000;
/// Most tasks of one feature that return to the queue at once.
const MAX_RELEASED: i64 = 32;

/// Declared paths of tasks, and files that their attempts changed.
async fn footprints(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<(Uuid, Footprint)>> {
    let rows = sqlx::query!(
        r#"select x.task_id, x.paths,
                  array(
                    select path
                    from (select d.files_changed from dispatches d
                          where d.task_id = x.task_id and d.files_changed is not null
                          order by d.claimed_at desc, d.id desc limit 20) latest
                    cross join lateral unnest(latest.files_changed) as path
                    limit $2
                  ) as "changed!"
           from task_texts x
           where x.task_id = any($1)"#,
        tasks,
        MAX_FILES,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.task_id, Footprint::new(&row.paths, row.changed)))
        .collect())
}

fn footprint_of(known: &mut Vec<(Uuid, Footprint)>, task: Uuid) -> Footprint {
    known
        .iter()
        .position(|(id, _)| *id == task)
        .map(|at| known.swap_remove(at).1)
        .unwrap_or_default()
}

/// The tasks of a feature that are under way: with a session, in verification, before their landing, or taken
/// by this transaction (`took`).
pub async fn busy(conn: &mut PgConnection, feature: FeatureId, took: &[Uuid]) -> sqlx::Result<Vec<Busy>> {
    let ids = sqlx::query_scalar!(
        r#"select task_id as "task_id!" from dispatches where feature_id = $1 and state = 'live'
           union
           select task_id from integrations where feature_id = $1 and state in ('waiting', 'turn', 'decided')
           union
           select task_id from ready_tasks where feature_id = $1 and priority <= -2147483647
           union
           select unnest($2::uuid[])"#,
        feature.0,
        took,
    )
    .fetch_all(&mut *conn)
    .await?;
    let known = footprints(conn, &ids).await?;
    Ok(known
        .into_iter()
        .map(|(task, footprint)| Busy {
            task: TaskId(task),
            footprint,
        })
        .collect())
}

/// The tasks of a feature that waited longest and keep their paths free: held tasks, and tasks that were
/// claimable for less than a minute. A task that no worker takes does not hold others back. After an hour of
/// waiting, a task has the highest priority.
pub async fn waiting(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Vec<Waiting>> {
    let rows = sqlx::query!(
        r#"select t.id, case when h.since > now() - interval '1 hour' then t.priority else -2147483648 end as "priority!"
         from path_holds h
         join tasks t on t.id = h.task_id
         where h.feature_id = $1 and t.state = 'pending'
           and (h.released_at is null or h.released_at > now() - interval '1 minute')
         order by h.since, h.task_id
         limit $2"#,
        feature.0,
        i64::try_from(MAX_WAITING).unwrap_or(i64::MAX),
    )
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut known = footprints(conn, &ids).await?;
    Ok(rows
        .into_iter()
        .map(|row| Waiting {
            task: TaskId(row.id),
            priority: row.priority,
            footprint: footprint_of(&mut known, row.id),
        })
        .collect())
}

/// The best `n` ready tasks of a feature, which stay queued.
pub async fn candidates(
    conn: &mut PgConnection,
    offer: &Capability,
    feature: FeatureId,
    n: i64,
) -> sqlx::Result<Vec<Candidate>> {
    let rows = sqlx::query!(
        r#"select best.task_id as "task_id!", best.priority as "priority!",
                  (best.kind <> 'work' or t.role <> 'work' or t.conflicts >= 2) as "exempt!"
           from open_keys($2) k
           cross join unnest($1::text[]) as p(pool)
           cross join unnest($4::text[]) as a(agent)
           cross join lateral (
             select task_id, priority, due, kind
             from ready_tasks
             where pool = p.pool and agent = a.agent and feature_id = $2 and key = k.key and not_before <= now()
               and (agent <> 'default' or pool || ' ' || kind::text <> all($5)) and priority < 2147483647
             order by due, task_id
             limit $3
           ) best
           join tasks t on t.id = best.task_id
           order by best.due, best.task_id
           limit $3"#,
        &offer.pools,
        feature.0,
        n,
        &offer.agents,
        &offer.shut_words(),
    )
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.task_id).collect();
    let mut known = footprints(conn, &ids).await?;
    Ok(rows
        .into_iter()
        .map(|row| Candidate {
            task: TaskId(row.task_id),
            priority: row.priority,
            footprint: footprint_of(&mut known, row.task_id),
            exempt: row.exempt,
        })
        .collect())
}

/// Takes admitted tasks out of the queue, best first, except tasks that were withdrawn meanwhile. Ends their
/// holds.
pub async fn take(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<Dequeued>> {
    let rows = sqlx::query!(
        r#"with gone as (
             delete from ready_tasks where task_id = any($1) returning task_id, feature_id, kind, priority, key, due, since
           ), free as (
             delete from path_holds where task_id = any($1)
           )
           select task_id as "task_id!", feature_id as "feature_id!", kind as "kind!: SessionKind", priority as "priority!", key as "key!",
                  extract(epoch from now() - since)::float8 as "waited_s!"
           from gone
           order by due, task_id"#,
        tasks,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Dequeued {
            task: TaskId(row.task_id),
            feature: FeatureId(row.feature_id),
            kind: row.kind,
            priority: row.priority,
            waited_s: row.waited_s,
            key: Some(row.key).filter(|key| !key.is_empty()),
        })
        .collect())
}

/// Takes tasks out of the queue that wait for others. Each entry is the task, the other task, and the common
/// paths. A task that was held before keeps its place, unless it was claimable for a minute and nobody
/// claimed it.
pub async fn hold(conn: &mut PgConnection, held: &[(Uuid, Uuid, String)]) -> sqlx::Result<()> {
    sqlx::query!(
        "with gone as (
           delete from ready_tasks where task_id = any($1::uuid[]) returning task_id, feature_id
         )
         insert into path_holds (task_id, feature_id, by_task, path)
         select gone.task_id, gone.feature_id, h.by_task, h.path
         from unnest($1::uuid[], $2::uuid[], $3::text[]) as h(task_id, by_task, path)
         join gone on gone.task_id = h.task_id
         on conflict (task_id) do update set by_task = excluded.by_task, path = excluded.path, released_at = null,
           -- As `waiting` sees it: the order that was decided by has to be the one that is kept, or two hold each other.
           since = case when path_holds.released_at <= now() - interval '1 minute' then excluded.since
                        else path_holds.since end",
        &held.iter().map(|(task, ..)| *task).collect::<Vec<_>>(),
        &held.iter().map(|(_, by, _)| *by).collect::<Vec<_>>(),
        &held.iter().map(|(.., path)| path.clone()).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Releases tasks that finished tasks held, the longest waiting first, and returns them. The caller holds the
/// features and queues the tasks, whose rows are locked now.
pub async fn release(conn: &mut PgConnection, features: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query!(
        "delete from path_holds h
         using tasks t
         where h.feature_id = any($1) and t.id = h.task_id and (t.state <> 'pending' or t.children > 0)",
        features,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query_scalar!(
        r#"with free as (
             select free.task_id
             from unnest($1::uuid[]) as f(id)
             cross join lateral (
               select h.task_id
               from path_holds h
               join tasks b on b.id = h.by_task
               join tasks t on t.id = h.task_id
               where h.feature_id = f.id and h.released_at is null and (b.state <> 'in_progress' or b.children > 0)
                 and not exists (
                   select 1 from path_holds w
                   where w.task_id = h.by_task and b.state = 'pending'
                     -- Who waits for less long keeps nothing free for itself: else two hold each other.
                     and (w.since, w.task_id) < (h.since, h.task_id)
                     and (w.released_at is null or w.released_at > now() - interval '1 minute')
                 )
               order by h.since, h.task_id
               limit $2
               -- What a claim has right now is not ours; the next look finds what is left of it.
               for no key update of t skip locked
             ) free
           )
           update path_holds h set released_at = now()
           from free
           where h.task_id = free.task_id
           returning h.task_id"#,
        features,
        MAX_RELEASED,
    )
    .fetch_all(conn)
    .await
}
