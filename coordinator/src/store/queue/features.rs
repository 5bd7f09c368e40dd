//! Features with claimable tasks, and their remaining room.

use ralph_shared::ids::{FeatureId, RunId};
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::domain::budget::{Pot, Purse, Usual};
use crate::domain::run::microusd;
use crate::domain::scheduling::capability::Capability;

/// A running feature with due tasks in some of the pools.
#[derive(Debug, Clone)]
pub struct Claimable {
    pub feature: FeatureId,
    pub run: RunId,
    pub max_parallel: i32,
    /// Live dispatches, without integrations and checks of the gate.
    pub running: i32,
    /// Live work dispatches, each of which becomes an iteration.
    pub working: i32,
    /// Waiting verifications and integrations: they finish earlier work and need no room.
    pub follow_ups: i32,
    /// Waiting checks of attempts ahead of their turn: they are optional and need no room.
    pub speculation: i32,
    pub iterations_left: Option<i32>,
    pub over_limit: bool,
    /// The rest of its cost and token limits, after the shares of live sessions.
    pub purse: Purse,
    /// Typical usage of sessions of its run, or else of the repository's newest features.
    pub usual: Usual,
    /// Its weight in the division of slots.
    pub weight: i32,
    pub deadline: Option<OffsetDateTime>,
    /// Whether its tasks have concurrency keys, so that ready ones may wait.
    pub keyed: bool,
    /// Whether tasks on the same paths run one after the other.
    pub avoid_conflicts: bool,
    /// The folder of all of its tasks, which take turns in it.
    pub dir: Option<String>,
    /// Whether a session of any feature works in that folder.
    pub dir_taken: bool,
}

/// Features with a task for this offer.
pub async fn claimable(conn: &mut PgConnection, offer: &Capability) -> sqlx::Result<Vec<Claimable>> {
    let rows = sqlx::query!(
        r#"with live as (
             select feature_id, run_id, count(*) filter (where kind not in ('integrate', 'check'))::int as running,
                    count(*) filter (where kind = 'work')::int as working,
                    sum(cost_usd) as usd,
                    sum(greatest(coalesce(cost_usd, 0), coalesce(share_microusd, 0) / 1e6)) as held_usd,
                    sum(used.tokens)::bigint as tokens,
                    sum(greatest(used.tokens, coalesce(share_tokens, 0)))::bigint as held_tokens
             from dispatches
             cross join lateral (
               select greatest(coalesce(input_tokens, 0) + coalesce(output_tokens, 0), context_tokens) as tokens
             ) used
             where state = 'live'
             group by feature_id, run_id
           )
           select f.id, r.id as run_id, f.max_parallel, f.weight, f.deadline, f.avoid_conflicts, f.dir, f.keys <> '{}' as "keyed!",
                  -- Which machine's folder it is, the pool tells.
                  (f.dir is not null and exists (
                    select 1
                    from dispatches d
                    join features g on g.id = d.feature_id and g.dir = f.dir
                    join task_texts x on x.task_id = d.task_id and x.pool = any($1)
                    where d.state = 'live'
                  )) as "dir_taken!",
                  (select coalesce(sum(running), 0)::int from live where live.feature_id = f.id) as "running!",
                  (select coalesce(sum(working), 0)::int from live where live.feature_id = f.id) as "working!",
                  (select count(*)::int from ready_tasks q
                   where q.feature_id = f.id and q.pool = any($1) and q.agent = any($2) and q.priority <= -2147483647
                     and q.not_before <= now()
                     and (q.agent <> 'default' or q.pool || ' ' || q.kind::text <> all($3))) as "follow_ups!",
                  (select count(*)::int from ready_tasks q
                   where q.feature_id = f.id and q.pool = any($1) and q.agent = any($2) and q.kind = 'check'
                     and q.priority = 2147483647 and q.not_before <= now()
                     and (q.agent <> 'default' or q.pool || ' ' || q.kind::text <> all($3))) as "speculation!",
                  r.max_iterations - r.iterations as iterations_left,
                  r.max_cost_usd, r.max_tokens,
                  r.cost_usd + coalesce(live.held_usd, 0) as "held_usd!",
                  r.input_tokens + r.output_tokens + coalesce(live.held_tokens, 0) as "held_tokens!",
                  usual.usd / nullif(usual.sessions, 0) as usual_usd,
                  usual.tokens / nullif(usual.sessions, 0) as usual_tokens,
                  coalesce(r.cost_usd + coalesce(live.usd, 0) >= r.max_cost_usd, false)
                    or coalesce(r.input_tokens + r.output_tokens + coalesce(live.tokens, 0) >= r.max_tokens, false)
                    or coalesce(extract(epoch from now() - greatest(r.started_at, f.not_before)) * 1000 - r.paused_ms >= r.max_time_ms, false)
                    or f.stop_at_deadline and coalesce(f.deadline <= now(), false)
                    as "over_limit!"
           from features f
           join runs r on r.id = f.current_run
           left join live on live.run_id = r.id
           cross join lateral (
             select r.iterations as sessions, r.cost_usd as usd, r.input_tokens + r.output_tokens as tokens
             where r.iterations > 0
             union all
             select sum(o.iterations), sum(o.cost_usd), sum(o.input_tokens + o.output_tokens)::bigint
             from (select id from features where repo_id = f.repo_id and r.iterations = 0 order by id desc limit 8) g
             join runs o on o.feature_id = g.id
             limit 1
           ) usual
           -- By the order each is a look-up in the index; without it a scan of the queue seems cheap that ends at the first hit,
           -- which may be the last entry of all.
           where f.state = 'running' and (f.not_before is null or f.not_before <= now())
             and (select true
                  from unnest($1::text[]) as p(pool)
                  cross join unnest($2::text[]) as a(agent)
                  cross join lateral (
                    select 1
                    from ready_tasks q
                    where q.pool = p.pool and q.agent = a.agent and q.feature_id = f.id and q.not_before <= now()
                      and (q.agent <> 'default' or q.pool || ' ' || q.kind::text <> all($3))
                    order by q.key, q.due, q.task_id
                    limit 1
                  ) first
                  limit 1)"#,
        &offer.pools,
        &offer.agents,
        &offer.shut_words(),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Claimable {
            feature: FeatureId(row.id),
            run: RunId(row.run_id),
            max_parallel: row.max_parallel,
            running: row.running,
            working: row.working,
            follow_ups: row.follow_ups,
            speculation: row.speculation,
            iterations_left: row.iterations_left,
            over_limit: row.over_limit,
            purse: Purse {
                microusd: row.max_cost_usd.map(|max| Pot {
                    max: microusd(max),
                    left: microusd(max - row.held_usd),
                }),
                tokens: row.max_tokens.map(|max| Pot {
                    max,
                    left: max.saturating_sub(row.held_tokens),
                }),
            },
            usual: Usual {
                microusd: row.usual_usd.map(microusd).filter(|usual| *usual > 0),
                tokens: row.usual_tokens.filter(|usual| *usual > 0),
            },
            weight: row.weight,
            deadline: row.deadline,
            keyed: row.keyed,
            avoid_conflicts: row.avoid_conflicts,
            dir: row.dir,
            dir_taken: row.dir_taken,
        })
        .collect())
}
