//! Limits besides those of runs: values, usage, effects.

use std::collections::{BTreeMap, HashMap};

use ralph_shared::ids::{DispatchId, FeatureId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::budget::levels::{Key, Level, LevelUsage, Levels, Limit, Notice};

/// Tasks whose usage to read.
#[derive(Debug, Clone, Copy)]
pub enum Tasks<'a> {
    Of(&'a [Uuid]),
    /// Tasks with a live session, and the newest tasks that wait for their next session.
    Begun,
}

/// Limits and their usage; with `all`, also the usage of scopes without a limit. A session that ended on a
/// future day, before the clock was set back, counts as today's.
pub async fn read(
    conn: &mut PgConnection,
    ceilings: &BTreeMap<Level, Limit>,
    tasks: Tasks<'_>,
    all: bool,
) -> sqlx::Result<Levels> {
    let set = sqlx::query!(r#"select level as "level: Level", key, max_cost_usd, max_tokens from budgets"#)
        .fetch_all(&mut *conn)
        .await?;
    let set = set.into_iter().map(|row| {
        let limit = Limit {
            cost_usd: row.max_cost_usd,
            tokens: row.max_tokens,
        };
        ((row.level, row.key), limit)
    });
    let mut levels = Levels {
        ceilings: ceilings.clone(),
        set: set.collect(),
        ..Levels::default()
    };
    let ever = all || levels.limits(Level::Account) || levels.limits(Level::Installation);
    if ever || levels.limits(Level::Day) {
        accounts_and_totals(conn, &mut levels, ever).await?;
    }
    if all || levels.limits(Level::Feature) {
        features(conn, &mut levels).await?;
    }
    if levels.limits(Level::Task) {
        of_tasks(conn, &mut levels, tasks).await?;
    }
    Ok(levels)
}

/// Usage of accounts, of today, and of all time.
async fn accounts_and_totals(conn: &mut PgConnection, levels: &mut Levels, ever: bool) -> sqlx::Result<()> {
    let rows = sqlx::query!(
        r#"select account as "account!", sum(usd) as "usd!", sum(tokens)::bigint as "tokens!", sum(day_usd) as "day_usd!",
                  sum(day_tokens)::bigint as "day_tokens!", sum(live_usd) as "live_usd!", sum(live_tokens)::bigint as "live_tokens!",
                  sum(held_usd) as "held_usd!", sum(held_tokens)::bigint as "held_tokens!"
           from (
             select account, sum(cost_usd) as usd, sum(input_tokens + output_tokens) as tokens,
                    coalesce(sum(cost_usd) filter (where day >= (now() at time zone 'utc')::date), 0) as day_usd,
                    coalesce(sum(input_tokens + output_tokens) filter (where day >= (now() at time zone 'utc')::date), 0) as day_tokens,
                    0::float8 as live_usd, 0 as live_tokens, 0::float8 as held_usd, 0 as held_tokens
             from spending
             where $1 or day >= (now() at time zone 'utc')::date
             group by account
             union all
             select coalesce(account, ''), 0, 0, 0, 0, coalesce(cost_usd, 0), used.tokens,
                    greatest(coalesce(cost_usd, 0), coalesce(share_microusd, 0) / 1e6), greatest(used.tokens, share_tokens)
             from dispatches
             cross join lateral (
               select coalesce(greatest(coalesce(input_tokens, 0) + coalesce(output_tokens, 0), context_tokens), 0) as tokens
             ) used
             where state = 'live'
           ) s
           group by account"#,
        ever,
    )
    .fetch_all(conn)
    .await?;
    let (mut day, mut installation) = (LevelUsage::default(), LevelUsage::default());
    for row in rows {
        let account = LevelUsage {
            usd: row.usd,
            tokens: row.tokens,
            in_flight_usd: row.live_usd,
            in_flight_tokens: row.live_tokens,
            held_usd: row.held_usd,
            held_tokens: row.held_tokens,
        };
        installation.add(&account);
        day.add(&LevelUsage {
            usd: row.day_usd,
            tokens: row.day_tokens,
            ..account
        });
        if ever && !row.account.is_empty() {
            levels.used.insert((Level::Account, row.account), account);
        }
    }
    levels.used.insert((Level::Day, String::new()), day);
    if ever {
        levels
            .used
            .insert((Level::Installation, String::new()), installation);
    }
    Ok(())
}

/// Usage of features that run or are paused, or whose run ended at a limit.
async fn features(conn: &mut PgConnection, levels: &mut Levels) -> sqlx::Result<()> {
    let rows = sqlx::query!(
        r#"select f.id, ended.usd as "usd!", ended.tokens as "tokens!", live.usd as "live_usd!", live.tokens as "live_tokens!",
                  live.held_usd as "held_usd!", live.held_tokens as "held_tokens!"
           from features f
           cross join lateral (
             select coalesce(sum(cost_usd), 0) as usd, coalesce(sum(input_tokens + output_tokens), 0)::bigint as tokens
             from runs
             where feature_id = f.id
           ) ended
           cross join lateral (
             select coalesce(sum(cost_usd), 0) as usd, coalesce(sum(used.tokens), 0)::bigint as tokens,
                    coalesce(sum(greatest(coalesce(cost_usd, 0), coalesce(share_microusd, 0) / 1e6)), 0)::float8 as held_usd,
                    coalesce(sum(greatest(used.tokens, share_tokens)), 0)::bigint as held_tokens
             from dispatches
             cross join lateral (
               select coalesce(greatest(coalesce(input_tokens, 0) + coalesce(output_tokens, 0), context_tokens), 0) as tokens
             ) used
             where feature_id = f.id and state = 'live'
           ) live
           where f.state in ('running', 'paused')
                 or f.state = 'ready'
                    and (select outcome = 'limit_reached' from runs where id = f.current_run limit 1)"#,
    )
    .fetch_all(conn)
    .await?;
    for row in rows {
        let used = LevelUsage {
            usd: row.usd,
            tokens: row.tokens,
            in_flight_usd: row.live_usd,
            in_flight_tokens: row.live_tokens,
            held_usd: row.held_usd,
            held_tokens: row.held_tokens,
        };
        levels.used.insert((Level::Feature, row.id.to_string()), used);
    }
    Ok(())
}

pub async fn of_tasks(conn: &mut PgConnection, levels: &mut Levels, tasks: Tasks<'_>) -> sqlx::Result<()> {
    let ids = match tasks {
        Tasks::Of(ids) => Some(ids),
        Tasks::Begun => None,
    };
    let rows = sqlx::query!(
        r#"select task_id, feature_id, coalesce(sum(cost_usd) filter (where state <> 'live'), 0) as "usd!",
                  coalesce(sum(used.tokens) filter (where state <> 'live'), 0)::bigint as "tokens!",
                  coalesce(sum(cost_usd) filter (where state = 'live'), 0) as "live_usd!",
                  coalesce(sum(used.tokens) filter (where state = 'live'), 0)::bigint as "live_tokens!",
                  coalesce(sum(greatest(coalesce(cost_usd, 0), coalesce(share_microusd, 0) / 1e6)) filter (where state = 'live'), 0)::float8
                    as "held_usd!",
                  coalesce(sum(greatest(used.tokens, share_tokens)) filter (where state = 'live'), 0)::bigint as "held_tokens!"
           from dispatches
           cross join lateral (
             select coalesce(greatest(coalesce(input_tokens, 0) + coalesce(output_tokens, 0), context_tokens), 0) as tokens
           ) used
           where task_id = any(coalesce($1::uuid[], array(
             select task_id from dispatches where state = 'live'
             union
             select t.id
             from (
               (select task_id from dispatches order by id desc limit 200)
               union
               select key::uuid from budget_holds where level = 'task'
             ) d
             cross join lateral (select id, state from tasks where id = d.task_id limit 1) t
             where t.state = 'pending'
           )))
           group by task_id, feature_id"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    for row in rows {
        let used = LevelUsage {
            usd: row.usd,
            tokens: row.tokens,
            in_flight_usd: row.live_usd,
            in_flight_tokens: row.live_tokens,
            held_usd: row.held_usd,
            held_tokens: row.held_tokens,
        };
        let task = row.task_id.to_string();
        levels.features.insert(task.clone(), row.feature_id.to_string());
        levels.used.insert((Level::Task, task), used);
    }
    Ok(())
}

/// Sets a limit. `None` keeps a value; a limit without values is deleted.
pub async fn set(
    conn: &mut PgConnection,
    (level, name): &Key,
    cost_usd: Option<Option<f64>>,
    tokens: Option<Option<i64>>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into budgets as b (level, key, max_cost_usd, max_tokens)
         values ($1, $2, $3, $4)
         on conflict (level, key) do update
         set max_cost_usd = case when $5 then $3 else b.max_cost_usd end,
             max_tokens = case when $6 then $4 else b.max_tokens end, set_at = now()",
        *level as Level,
        name,
        cost_usd.flatten(),
        tokens.flatten(),
        cost_usd.is_some(),
        tokens.is_some(),
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!("delete from budgets where max_cost_usd is null and max_tokens is null")
        .execute(conn)
        .await?;
    Ok(())
}

/// Limits of a feature, of each of its tasks, and of each of its sessions.
pub async fn of_feature(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Vec<(Level, Limit)>> {
    let rows = sqlx::query!(
        r#"select level as "level: Level", max_cost_usd, max_tokens
           from budgets
           where level in ('session', 'task', 'feature') and key = $1"#,
        feature.0.to_string(),
    )
    .fetch_all(conn)
    .await?;
    let limits = rows.into_iter().map(|row| {
        let limit = Limit {
            cost_usd: row.max_cost_usd,
            tokens: row.max_tokens,
        };
        (row.level, limit)
    });
    Ok(limits.collect())
}

pub async fn give(
    conn: &mut PgConnection,
    feature: FeatureId,
    limits: &[(Level, Limit)],
) -> sqlx::Result<()> {
    for (level, limit) in limits {
        let key = (*level, feature.0.to_string());
        set(conn, &key, Some(limit.cost_usd), Some(limit.tokens)).await?;
    }
    Ok(())
}

/// Deletes the limits of deleted features and tasks.
pub async fn forget(conn: &mut PgConnection, gone: &[Uuid]) -> sqlx::Result<()> {
    let keys: Vec<String> = gone.iter().map(Uuid::to_string).collect();
    sqlx::query!(
        "delete from budgets where level in ('session', 'task', 'feature') and key = any($1)",
        &keys,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records the limits that allow no new session, with reasons.
pub async fn hold(conn: &mut PgConnection, holds: &[(Key, String)]) -> sqlx::Result<()> {
    let levels: Vec<Level> = holds.iter().map(|((level, _), _)| *level).collect();
    let names: Vec<String> = holds.iter().map(|((_, name), _)| name.clone()).collect();
    let reasons: Vec<String> = holds.iter().map(|(_, reason)| reason.clone()).collect();
    sqlx::query!(
        "with gone as (
           delete from budget_holds h
           where not exists (select from unnest($1::budget_level[], $2::text[]) as n(level, key) where n.level = h.level and n.key = h.key)
         )
         insert into budget_holds as h (level, key, reason)
         select level, key, reason
         from unnest($1::budget_level[], $2::text[], $3::text[]) as n(level, key, reason)
         order by level, key
         on conflict (level, key) do update
         set reason = excluded.reason
         where h.reason <> excluded.reason",
        &levels as &[Level],
        &names,
        &reasons,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Reasons why exhausted limits hold work back, at most `limit`.
pub async fn reasons(conn: &mut PgConnection, limit: i64) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "select reason from budget_holds order by level desc, key limit $1",
        limit
    )
    .fetch_all(conn)
    .await
}

/// Reasons of the features that their own limits hold back.
pub async fn hold_reasons(
    conn: &mut PgConnection,
    features: &[Uuid],
) -> sqlx::Result<HashMap<FeatureId, String>> {
    let rows = sqlx::query!(
        r#"select f.id as "id!", h.reason
           from unnest($1::uuid[]) as f(id)
           join budget_holds h on h.level = 'feature' and h.key = f.id::text"#,
        features,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (FeatureId(row.id), row.reason))
        .collect())
}

/// Asks live sessions under these limits to end; returns them with their workers.
pub async fn end(conn: &mut PgConnection, passed: &[Key]) -> sqlx::Result<Vec<(DispatchId, String)>> {
    let levels: Vec<Level> = passed.iter().map(|(level, _)| *level).collect();
    let names: Vec<String> = passed.iter().map(|(_, name)| name.clone()).collect();
    let rows = sqlx::query!(
        "with over as (
           select id
           from dispatches d
           where d.state = 'live' and d.end_reason is null and d.kind not in ('integrate', 'git', 'check')
             and exists (
               select
               from unnest($1::budget_level[], $2::text[]) as p(level, key)
               where p.level in ('day', 'installation') or p.level = 'account' and p.key = d.account
                     or p.level = 'feature' and p.key = d.feature_id::text or p.level = 'task' and p.key = d.task_id::text
             )
           order by id
           for no key update
         )
         update dispatches d
         set end_reason = 'run_limit'
         from over
         where d.id = over.id
         returning d.id, d.worker",
        &levels as &[Level],
        &names,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (DispatchId(row.id), row.worker))
        .collect())
}

/// Writes a notice that a part of a limit was used, once. Returns whether it is new.
pub async fn tell(conn: &mut PgConnection, notice: &Notice) -> sqlx::Result<bool> {
    let (level, name) = &notice.key;
    let noted = sqlx::query!(
        "with new as (
           insert into budget_notices (level, key, unit, most, day, percent)
           select $1::budget_level, $2, $3, $4,
                  case when $1::budget_level = 'day' then (now() at time zone 'utc')::date else '-infinity' end, $5
           where not exists (
             select from budget_notices
             where level = $1 and key = $2 and unit = $3 and most = $4 and percent > $5
               and day = case when $1::budget_level = 'day' then (now() at time zone 'utc')::date else '-infinity' end
           )
           on conflict do nothing
           returning 1
         )
         insert into notices (id, event, feature_id, run_id, reason)
         select $6, 'budget_used', coalesce(r.feature_id, f.id), r.id, $7
         from new
         left join lateral (
           select id, feature_id from runs where id = case $1::budget_level when 'run' then $2::text::uuid end limit 1
         ) r on true
         left join lateral (
           select id from features where id = case $1::budget_level when 'feature' then $2::text::uuid end limit 1
         ) f on true",
        *level as Level,
        name,
        notice.unit.as_str(),
        notice.most,
        notice.percent,
        Uuid::now_v7(),
        notice.to_string(),
    )
    .execute(conn)
    .await?;
    Ok(noted.rows_affected() > 0)
}
