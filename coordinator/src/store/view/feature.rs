pub use ralph_api::view::{FeatureView, TaskCounts};
use ralph_shared::address::public;
use ralph_shared::ids::{FeatureId, RunId};
use sqlx::PgConnection;
use uuid::Uuid;

use super::gate::gates;
use super::page::{Cursor, Page, cut};
use super::run::RunView;
use crate::domain::budget::levels::Hold;
use crate::domain::states::{FailurePolicy, FeatureState};
use crate::domain::status::condition::{self, FinishedRun};
use crate::store;

/// Features by key, in the order of `ids`.
pub async fn features(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<FeatureView>> {
    let rows = sqlx::query!(
        r#"select f.id, name, state as "state: FeatureState", repo_address, repo_id, dir, base_ref, base_commit, branch,
                  max_parallel, failure_policy as "failure_policy: FailurePolicy", avoid_conflicts, weight, not_before, deadline,
                  stop_at_deadline, pending, blocked, done, failed,
                  cancelled, skipped, needs_review, created_at, updated_at,
                  coalesce(current_run,
                           (select r.id from runs r where r.feature_id = f.id order by started_at desc limit 1)) as run,
                  (select coalesce(sum(r.cost_usd), 0) from runs r where r.feature_id = f.id) as "cost_usd!",
                  (select next_at from schedules where feature_id = f.id and not paused) as begins_at,
                  (select cron from schedules where feature_id = f.id and not paused) as every,
                  (live.estimated
                   or (select coalesce(sum(r.estimated_usd), 0) > 0 from runs r where r.feature_id = f.id)) as "estimated!",
                  live.sessions as "live!", live.cost_usd as "in_flight_usd!",
                  (select h.reason
                   from budget_holds h
                   where f.state = 'running' and (h.level in ('day', 'installation')
                                                   or h.level = 'task' and exists (
                                                     select from tasks t where t.id = h.key::uuid and t.feature_id = f.id
                                                   ))
                         or f.state in ('running', 'ready') and h.level = 'feature' and h.key = f.id::text
                   order by h.level
                   limit 1) as held_by_limit,
                  f.pending > 0 and f.state not in ('running', 'paused', 'done', 'cancelled')
                  and coalesce((
                    select true
                    from tasks t
                    where t.feature_id = f.id and t.children = 0
                      and (t.state = 'pending' and t.open_blockers = 0 and not t.held
                           or t.state = 'in_progress'
                              and (t.next_kind = 'verify'
                                   or t.next_kind = 'integrate'
                                      and not exists (
                                        select from tasks c where c.id = f.check_task and c.state in ('failed', 'needs_review')
                                      )))
                    limit 1
                  ), false) as "can_begin!", now() as "now!"
           from unnest($1::uuid[]) with ordinality as wanted(id, n)
           join features f on f.id = wanted.id
           cross join lateral (
             select count(*) as sessions, coalesce(sum(d.cost_usd), 0) as cost_usd,
                    coalesce(bool_or(d.cost_basis = 'estimated'), false) as estimated
             from dispatches d
             where d.feature_id = f.id and d.state = 'live'
           ) live
           order by wanted.n"#,
        ids,
    )
    .fetch_all(&mut *conn)
    .await?;
    let run_ids: Vec<Uuid> = rows.iter().filter_map(|row| row.run).collect();
    let mut runs = match run_ids[..] {
        [] => Vec::new(),
        _ => store::run::read(conn, &run_ids).await?,
    };
    let mut gates = gates(conn, ids).await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let run = row
                .run
                .and_then(|id| runs.iter().position(|run| run.id == RunId(id)))
                .map(|at| runs.swap_remove(at));
            let counted = [
                row.blocked,
                row.done,
                row.failed,
                row.cancelled,
                row.skipped,
                row.needs_review,
            ];
            let open = i64::from(row.pending);
            // Claims move tasks without the feature's lock, so the two numbers belong to slightly different
            // moments.
            let in_progress = row.live.min(open);
            let tasks = TaskCounts {
                total: open + counted.into_iter().map(i64::from).sum::<i64>(),
                pending: open - in_progress,
                blocked: row.blocked.into(),
                in_progress,
                done: row.done.into(),
                failed: row.failed.into(),
                cancelled: row.cancelled.into(),
                skipped: row.skipped.into(),
                needs_review: row.needs_review.into(),
            };
            let facts = condition::Facts {
                state: row.state,
                total: tasks.total,
                open: tasks.open(),
                needs_person: tasks.needs_review,
                failed: tasks.failed,
                live: row.live > 0,
                can_begin: row.can_begin,
                ended: run.as_ref().and_then(FinishedRun::of),
                begins_at: row.begins_at,
                opens: row.not_before.filter(|at| *at > row.now),
                held: row.held_by_limit.as_deref().map(Hold::words_of),
            };
            FeatureView {
                id: FeatureId(row.id).short(),
                name: row.name,
                status: row.state,
                condition: condition::of(&facts),
                repo: row.repo_address.as_deref().map(public),
                repo_id: row.repo_id,
                dir: row.dir,
                base_ref: row.base_ref,
                base_commit: row.base_commit,
                branch: row.branch,
                max_parallel: row.max_parallel,
                failure_policy: row.failure_policy,
                avoid_conflicts: row.avoid_conflicts,
                weight: row.weight,
                not_before: row.not_before,
                deadline: row.deadline,
                stop_at_deadline: row.stop_at_deadline,
                begins_at: row.begins_at,
                every: row.every,
                tasks,
                needs_run: facts.needs_run(),
                run: run.map(RunView::from),
                gate: gates.remove(&row.id),
                cost_usd: row.cost_usd,
                in_flight_usd: row.in_flight_usd,
                estimated: row.estimated,
                held_by_limit: row.held_by_limit,
                created_at: row.created_at,
                updated_at: row.updated_at,
            }
        })
        .collect())
}

/// Features, newest first; only those in `states`, unless it is empty.
pub async fn features_page(
    conn: &mut PgConnection,
    states: &[FeatureState],
    cursor: Cursor,
    limit: i64,
) -> sqlx::Result<Page<FeatureView>> {
    let ids = sqlx::query_scalar!(
        "select id
         from features
         where id <= coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') and id <> coalesce($1::uuid, '00000000-0000-0000-0000-000000000000')
           and (cardinality($2::feature_state[]) = 0 or state = any($2))
         order by id desc
         limit $3::bigint + 1",
        cursor.0,
        states as &[FeatureState],
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let (ids, next) = cut(ids, limit);
    Ok(Page {
        items: features(conn, &ids).await?,
        next,
    })
}
