//! Sums of spending.

pub use ralph_api::view::{By, CostRow};
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::domain::budget::estimate::Before;

/// Sums, the highest first. They include deleted features, except with `since` or by feature or task.
pub async fn costs(
    conn: &mut PgConnection,
    by: By,
    since: Option<OffsetDateTime>,
) -> sqlx::Result<Vec<CostRow>> {
    let rows = sqlx::query!(
        r#"with parts as (
             select day, account, agent, model, kind::text as kind, null::uuid as feature_id, null::uuid as task_id, sessions, subscribed,
                    cost_usd, estimated_usd, input_tokens, output_tokens, cached_tokens, cache_write_tokens
             from spending
             where $2::timestamptz is null and $1 not in ('feature', 'task')
             union all
             select (coalesce(settled_at, now()) at time zone 'utc')::date, coalesce(account, ''), coalesce(agent, 'default'),
                    coalesce(model_used, model, ''), kind::text, feature_id, task_id, 1,
                    (cost_basis is not distinct from 'subscription')::int,
                    coalesce(cost_usd, 0), case when cost_basis = 'estimated' then cost_usd else 0 end,
                    greatest(coalesce(input_tokens, 0), coalesce(context_tokens, 0) - coalesce(output_tokens, 0)),
                    coalesce(output_tokens, 0), coalesce(cached_tokens, 0), coalesce(cache_write_tokens, 0)
             from dispatches
             where kind not in ('integrate', 'git', 'check')
               and (state = 'live'
                    or ($2::timestamptz is not null or $1 in ('feature', 'task'))
                       and settled_at >= coalesce($2, '-infinity'::timestamptz))
           ), added as (
             select case $1 when 'feature' then feature_id::text when 'task' then task_id::text when 'model' then model
                            when 'agent' then agent when 'account' then account when 'kind' then kind else day::text end as key,
                    sum(sessions)::bigint as sessions, sum(subscribed)::bigint as subscribed,
                    sum(cost_usd) as cost_usd, sum(estimated_usd) as estimated_usd, sum(input_tokens)::bigint as input_tokens,
                    sum(output_tokens)::bigint as output_tokens, sum(cached_tokens)::bigint as cached_tokens,
                    sum(cache_write_tokens)::bigint as cache_write_tokens
             from parts
             group by 1
           )
           select a.key as "key!", coalesce(f.name, x.title) as name, sessions as "sessions!", subscribed as "subscribed!",
                  cost_usd as "cost_usd!", estimated_usd as "estimated_usd!",
                  input_tokens as "input_tokens!", output_tokens as "output_tokens!", cached_tokens as "cached_tokens!",
                  cache_write_tokens as "cache_write_tokens!"
           from added a
           left join lateral (
             select name from features where id = case $1 when 'feature' then a.key::uuid end limit 1
           ) f on true
           left join lateral (
             select title from task_texts where task_id = case $1 when 'task' then a.key::uuid end limit 1
           ) x on true
           order by case when $1 = 'day' then a.key end desc, cost_usd desc, a.key"#,
        by.into_str(),
        since,
    )
    .fetch_all(conn)
    .await?;
    let rows = rows.into_iter().map(|row| CostRow {
        key: row.key,
        name: row.name,
        sessions: row.sessions,
        cost_usd: row.cost_usd,
        estimated_usd: row.estimated_usd,
        subscription_sessions: row.subscribed,
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        cached_tokens: row.cached_tokens,
        cache_write_tokens: row.cache_write_tokens,
    });
    Ok(rows.collect())
}

/// All-time usage of a model and an agent; sums never fall.
#[derive(Debug, Clone, PartialEq)]
pub struct Spending {
    pub model: String,
    pub agent: String,
    pub sessions: i64,
    pub cost_usd: f64,
    pub input_tokens: i64,
    pub output_tokens: i64,
}

pub async fn spending(conn: &mut PgConnection) -> sqlx::Result<Vec<Spending>> {
    sqlx::query_as!(
        Spending,
        r#"select model, agent, sum(sessions)::bigint as "sessions!", sum(cost_usd) as "cost_usd!",
                  sum(input_tokens)::bigint as "input_tokens!", sum(output_tokens)::bigint as "output_tokens!"
           from spending
           group by model, agent
           order by model, agent"#
    )
    .fetch_all(conn)
    .await
}

/// An estimate reads this many of a repository's newest tasks.
const NEWEST_TASKS: i64 = 300;

/// Ranges of the total usage, over all sessions, of a repository's newest finished tasks.
pub async fn before(conn: &mut PgConnection, repo_id: &str) -> sqlx::Result<Before> {
    let row = sqlx::query!(
        r#"select count(*) as "tasks!", count(usd) as "priced!",
                  percentile_cont(0.2) within group (order by usd) as usd_low,
                  percentile_cont(0.8) within group (order by usd) as usd_high,
                  percentile_cont(0.2) within group (order by ms) as ms_low,
                  percentile_cont(0.8) within group (order by ms) as ms_high
           from (
             select case when bool_and(d.cost_usd is not null) then sum(d.cost_usd) end as usd, sum(d.duration_ms)::float8 as ms
             from (
               select t.id
               from (select id from features where repo_id = $1 order by id desc limit 50) f
               join tasks t on t.feature_id = f.id and t.state = 'done' and t.children = 0
               order by t.id desc
               limit $2
             ) t
             join dispatches d on d.task_id = t.id and d.state <> 'live' and d.kind in ('work', 'verify')
             group by t.id
             having bool_or(d.kind = 'work')
           ) done"#,
        repo_id,
        NEWEST_TASKS,
    )
    .fetch_one(conn)
    .await?;
    Ok(Before {
        priced: row.priced,
        tasks: row.tasks,
        usd: row.usd_low.zip(row.usd_high),
        ms: row.ms_low.zip(row.ms_high),
    })
}
