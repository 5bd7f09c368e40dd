//! Rules that hold between any two transactions. Each query returns the rows that break its rule.

use sqlx::PgPool;

const RULES: &[(&str, &str)] = &[
    (
        "a run's cost includes that of all dispatches that are no longer live",
        "select r.id::text || ' counts ' || r.cost_usd || ' USD, not ' || d.usd
         from runs r
         cross join lateral (
           select coalesce(sum(cost_usd), 0) as usd from dispatches where run_id = r.id and state <> 'live'
         ) d
         where r.cost_usd < d.usd - 1e-9",
    ),
    (
        "open_blockers equals a recount",
        "select t.id::text || ' has ' || t.open_blockers || ', not ' || r.n
         from tasks t
         cross join lateral (
           select (select count(*) from dependencies d join tasks b on b.id = d.blocker_id
                   where d.task_id = t.id and b.state not in ('done', 'skipped'))
                + (select count(*) from tasks p where p.id = t.parent_id and p.open_blockers > 0) as n
         ) r
         where t.open_blockers <> r.n",
    ),
    (
        "children equal a recount",
        "select t.id::text || ' has ' || t.open_children || ' of ' || t.children || ', not ' || r.open || ' of ' || r.n
         from tasks t
         cross join lateral (
           select count(*) as n, count(*) filter (where c.state not in ('done', 'skipped', 'cancelled')) as open
           from tasks c where c.parent_id = t.id
         ) r
         where t.children <> r.n or t.open_children <> r.open",
    ),
    (
        "a task is blocked if and only if it has open blockers",
        "select id::text || ' is ' || state::text || ' with ' || open_blockers
         from tasks
         where (state = 'blocked' and open_blockers = 0) or (state = 'pending' and open_blockers > 0)",
    ),
    (
        "a feature's counters equal a recount",
        "select f.name || ' ' || r::text
         from features f
         cross join lateral (
           select count(*) filter (where state in ('pending', 'in_progress')) as pending,
                  count(*) filter (where state = 'blocked') as blocked, count(*) filter (where state = 'done') as done,
                  count(*) filter (where state = 'failed') as failed,
                  count(*) filter (where state = 'cancelled') as cancelled,
                  count(*) filter (where state = 'skipped') as skipped,
                  count(*) filter (where state = 'needs_review') as needs_review
           from tasks where feature_id = f.id
         ) r
         where (f.pending, f.blocked, f.done, f.failed, f.cancelled, f.skipped, f.needs_review)
           is distinct from (r.pending, r.blocked, r.done, r.failed, r.cancelled, r.skipped, r.needs_review)",
    ),
    (
        "every queued task may be claimed",
        "select t.id::text || ' is queued for ' || q.kind::text || ' and ' || t.state::text || '/' || coalesce(t.next_kind::text, '-')
         from ready_tasks q
         join tasks t on t.id = q.task_id
         join features f on f.id = t.feature_id
         where f.state <> 'running' or t.children > 0
            or (t.next_kind <> q.kind and not (q.kind = 'check' and t.next_kind = 'integrate'))
            or (q.kind not in ('verify', 'integrate') and (t.held or t.open_blockers > 0))
            or not (t.state = 'pending' or (t.state = 'in_progress' and t.next_kind in ('verify', 'integrate')))
            or exists (select 1 from dispatches d where d.id = t.dispatch_id and d.state = 'live')",
    ),
    (
        "a queued task has the pool and the agent of its next session",
        "select q.task_id::text || ' waits for ' || q.agent || ' in ' || q.pool
         from ready_tasks q
         join task_texts x on x.task_id = q.task_id
         join features f on f.id = q.feature_id
         left join runs r on r.id = f.current_run
         where q.pool <> x.pool or q.agent <> agent_needed(q.kind, x.agent, r.agent)",
    ),
    (
        "every task that may be claimed is queued",
        "select t.id::text || ' is ' || t.state::text || '/' || t.next_kind::text || ' and not queued'
         from tasks t
         join features f on f.id = t.feature_id
         left join runs r on r.id = f.current_run
         where f.state = 'running' and t.children = 0
           and (r.only_task is null or t.next_kind in ('verify', 'check') or task_within(t.id, r.only_task))
           and ((t.state = 'pending' and not t.held and t.open_blockers = 0 and t.next_kind <> 'integrate')
                or (t.state = 'in_progress' and t.next_kind = 'verify'))
           and not exists (select 1 from dispatches d where d.id = t.dispatch_id and d.state = 'live')
           and not exists (select 1 from ready_tasks q where q.task_id = t.id)
           and not exists (select 1 from path_holds h where h.task_id = t.id and h.released_at is null)",
    ),
    (
        "a parent is failed if and only if a leaf below it is",
        "with recursive above as (
           select parent_id as id from tasks where state = 'failed' and children = 0 and parent_id is not null
           union
           select t.parent_id from tasks t join above a on a.id = t.id where t.parent_id is not null
         )
         select id::text || ' is ' || state::text
         from tasks
         where children > 0 and (state = 'failed') <> (id in (select id from above))",
    ),
    (
        "a held task is a sibling of a failed one, or below such a sibling",
        "with recursive beside as (
           select t.id
           from tasks t
           join tasks s on s.feature_id = t.feature_id and s.parent_id is not distinct from t.parent_id and s.id <> t.id
           where s.state = 'failed' and s.children = 0
           union
           select t.id from tasks t join beside b on b.id = t.parent_id
         )
         select t.id::text || ' is held'
         from tasks t join features f on f.id = t.feature_id
         where t.held and (f.failure_policy <> 'stop' or t.id not in (select id from beside))",
    ),
    (
        "no two sessions work on the same declared paths, where conflicts are avoided",
        "select a.task_id::text || ' and ' || b.task_id::text || ' work on ' || y.paths::text
         from dispatches a
         join dispatches b on b.feature_id = a.feature_id and b.task_id > a.task_id and b.kind = 'work' and b.state = 'live'
         join features f on f.id = a.feature_id and f.avoid_conflicts
         join tasks s on s.id = a.task_id and s.conflicts < 2
         join tasks t on t.id = b.task_id and t.conflicts < 2
         join task_texts x on x.task_id = a.task_id
         join task_texts y on y.task_id = b.task_id
         where a.kind = 'work' and a.state = 'live'
           and exists (select 1 from unnest(x.paths) p join unnest(y.paths) q
                       on p = q or starts_with(p, q || '/') or starts_with(q, p || '/'))",
    ),
    (
        "a running feature's oldest free integration is queued",
        "select f.name || ' has an integration that nobody may claim'
         from features f
         where f.state = 'running'
           and exists (select 1 from integrations i where i.feature_id = f.id and i.state in ('waiting', 'turn', 'decided'))
           and not exists (select 1 from integrations i where i.feature_id = f.id and i.dispatch_id is not null
                                                           and i.state in ('waiting', 'turn', 'decided'))
           and not exists (select 1 from ready_tasks q join integrations i on i.task_id = q.task_id
                           where q.feature_id = f.id and q.kind in ('integrate', 'check'))
           -- Or it is judged again within its turn.
           and not exists (select 1 from ready_tasks q join integrations i on i.task_id = q.task_id and i.state = 'turn'
                           where q.feature_id = f.id and q.kind = 'verify')
           -- Or the gate is not known to pass on the base.
           and not exists (select 1 from tasks c where c.id = f.check_task and c.state not in ('done', 'skipped', 'cancelled'))",
    ),
    (
        "no undecided landing is queued while the gate is not known to pass on the base",
        "select q.task_id::text || ' is queued beside ' || c.id::text || ', which is ' || c.state::text
         from ready_tasks q
         join integrations i on i.task_id = q.task_id and i.state in ('waiting', 'turn')
         join features f on f.id = q.feature_id
         join tasks c on c.id = f.check_task
         where q.kind in ('integrate', 'check') and c.state not in ('done', 'skipped', 'cancelled')",
    ),
    (
        "at most one integration of a feature is queued",
        "select feature_id::text from ready_tasks where kind = 'integrate' group by feature_id having count(*) > 1",
    ),
    (
        "a live dispatch is its task's current one",
        "select d.id::text || ' of a task that is ' || t.state::text
         from dispatches d join tasks t on t.id = d.task_id
         where d.state = 'live' and (t.dispatch_id is distinct from d.id or t.state <> 'in_progress')",
    ),
    (
        "a task in progress has a session, a queue entry or an integration",
        "select t.id::text || ' waits for nothing'
         from tasks t
         join features f on f.id = t.feature_id
         where t.state = 'in_progress' and t.children = 0 and f.state = 'running'
           and not exists (select 1 from dispatches d where d.id = t.dispatch_id and d.state = 'live')
           and not exists (select 1 from ready_tasks q where q.task_id = t.id)
           and not exists (select 1 from integrations i where i.task_id = t.id and i.state in ('waiting', 'turn', 'decided'))",
    ),
    (
        "an open integration belongs to a task in progress",
        "select i.id::text || ' of a task that is ' || t.state::text || '/' || coalesce(t.next_kind::text, '-')
         from integrations i join tasks t on t.id = i.task_id
         where i.state in ('waiting', 'turn', 'decided') and (t.state <> 'in_progress'
           or (t.next_kind <> 'integrate' and not (t.next_kind = 'verify' and i.state = 'turn')))",
    ),
    (
        "a resolved parent has no open child",
        "select id::text || ' is ' || state::text || ' with ' || open_children
         from tasks where children > 0 and state in ('done', 'skipped', 'cancelled') and open_children > 0",
    ),
    (
        "a task lands once, and once more after each revert",
        "select task_id::text from dispatches d where outcome = 'merged' and state = 'settled'
         group by task_id
         having count(*) > 1 + (select count(*) from integrations i where i.task_id = d.task_id and i.state = 'reverted')",
    ),
    (
        "rows that name a task name an existing one",
        "select 'dispatch ' || d.id::text from dispatches d where not exists (select from tasks t where t.id = d.task_id)
         union all
         select 'learning ' || l.id::text from learnings l
         where l.task_id is not null and not exists (select from tasks t where t.id = l.task_id)
         union all
         select 'knowledge ' || k.id::text from knowledge k
         where k.task_id is not null and not exists (select from tasks t where t.id = k.task_id)
         union all
         select 'text of ' || task_id::text from task_texts x where not exists (select from tasks t where t.id = x.task_id)
         union all
         select 'place of ' || task_id::text from ready_tasks q where not exists (select from tasks t where t.id = q.task_id)
         union all
         select 'integration ' || i.id::text from integrations i where not exists (select from tasks t where t.id = i.task_id)
         union all
         select 'edge from ' || task_id::text from dependencies d
         where not exists (select from tasks t where t.id = d.task_id) or not exists (select from tasks t where t.id = d.blocker_id)",
    ),
    (
        "a done task waits for no verification",
        "select id::text from tasks where state = 'done' and verification = 'pending'",
    ),
    (
        "a feature has an open run if and only if it runs or is paused",
        "select f.name || ' is ' || f.state::text
         from features f left join runs r on r.id = f.current_run and r.ended_at is null
         where (f.state in ('running', 'paused')) <> (r.id is not null)",
    ),
    (
        "a running feature has a session, a queue entry or a path hold",
        "select f.name || ' runs, and nothing of it does'
         from features f
         where f.state = 'running'
           and not exists (select 1 from dispatches d where d.feature_id = f.id and d.state = 'live')
           and not exists (select 1 from ready_tasks q where q.feature_id = f.id)
           and not exists (select 1 from path_holds h where h.feature_id = f.id and h.released_at is null)",
    ),
    (
        "a feature runs only while something is open",
        "select f.name || ' runs for nothing'
         from features f
         where f.state = 'running' and f.pending + f.blocked = 0
           and not exists (select 1 from dispatches d where d.feature_id = f.id and d.state = 'live')",
    ),
];

/// Checks every rule; the error names the first broken rule and the rows that break it.
pub async fn check(db: &PgPool) -> Result<(), String> {
    for (rule, query) in RULES {
        let broken: Vec<Option<String>> = sqlx::query_scalar(*query)
            .fetch_all(db)
            .await
            .map_err(|e| format!("{rule}: {e}"))?;
        if !broken.is_empty() {
            let broken: Vec<_> = broken.into_iter().flatten().collect();
            return Err(format!("not true that {rule}: {}", broken.join("; ")));
        }
    }
    Ok(())
}
