//! Usage of dispatches: running figures from heartbeats, and shares of their runs' limits.

use std::collections::HashMap;

use ralph_shared::ids::{DispatchId, FeatureId, RunId, TaskId};
use ralph_shared::wire::{DispatchUsage, Share, Usage};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::budget::{Pot, Purse};
use crate::domain::run::microusd;

/// Clamps a number to the database's range.
pub(in crate::store) fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The inverse of [`whole`]; a negative number becomes 0.
pub(in crate::store) fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// The database's word for the basis of a cost.
pub(in crate::store) fn basis(usage: &Usage) -> Option<&'static str> {
    usage.sureness().map(|one| one.into_str())
}

/// Stores the running usage of a worker's live dispatches; figures never fall.
pub async fn tell(conn: &mut PgConnection, worker: &str, used: &[DispatchUsage]) -> sqlx::Result<()> {
    let tokens = |of: fn(&Usage) -> Option<u64>| -> Vec<Option<i64>> {
        used.iter().map(|one| of(&one.usage).map(whole)).collect()
    };
    sqlx::query!(
        "with told as (
           select d.id, u.input_tokens, u.output_tokens, u.cached_tokens, u.cache_write_tokens, u.context_tokens, u.cost_usd,
                  u.cost_basis::cost_basis
           from unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::float8[], $9::text[])
                  as u(id, input_tokens, output_tokens, cached_tokens, cache_write_tokens, context_tokens, cost_usd, cost_basis)
           join dispatches d on d.id = u.id
           where d.state = 'live' and d.worker = $1
             and (u.input_tokens > coalesce(d.input_tokens, -1) or u.output_tokens > coalesce(d.output_tokens, -1)
                  or u.cached_tokens > coalesce(d.cached_tokens, -1)
                  or u.cache_write_tokens > coalesce(d.cache_write_tokens, -1)
                  or u.context_tokens > coalesce(d.context_tokens, -1) or u.cost_usd > coalesce(d.cost_usd, -1)
                  or u.cost_basis::cost_basis > d.cost_basis or u.cost_basis is not null and d.cost_basis is null)
           order by d.id
           for no key update of d
         )
         update dispatches d
         set input_tokens = greatest(d.input_tokens, t.input_tokens),
             output_tokens = greatest(d.output_tokens, t.output_tokens),
             cached_tokens = greatest(d.cached_tokens, t.cached_tokens),
             cache_write_tokens = greatest(d.cache_write_tokens, t.cache_write_tokens),
             context_tokens = greatest(d.context_tokens, t.context_tokens),
             -- What is surer goes before what is greater.
             cost_usd = case when t.cost_basis > d.cost_basis then t.cost_usd
                             when t.cost_basis < d.cost_basis then d.cost_usd
                             else greatest(d.cost_usd, t.cost_usd) end,
             cost_basis = greatest(d.cost_basis, t.cost_basis)
         from told t
         where d.id = t.id",
        worker,
        &used.iter().map(|one| one.dispatch.0).collect::<Vec<_>>(),
        &tokens(|used| used.input_tokens) as &[Option<i64>],
        &tokens(|used| used.output_tokens) as &[Option<i64>],
        &tokens(|used| used.cached_tokens) as &[Option<i64>],
        &tokens(|used| used.cache_write_tokens) as &[Option<i64>],
        &tokens(|used| used.context_tokens) as &[Option<i64>],
        &used.iter().map(|one| one.usage.cost_usd).collect::<Vec<_>>() as &[Option<f64>],
        &used.iter().map(|one| basis(&one.usage)).collect::<Vec<_>>() as &[Option<&str>],
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Locks the worker's dispatches that are no longer live, whose usage their runs already count. Returns their
/// ids.
pub async fn lock_over(conn: &mut PgConnection, worker: &str, ids: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "select id
         from dispatches
         where id = any($1) and state <> 'live' and worker = $2
         order by id
         for no key update",
        ids,
        worker,
    )
    .fetch_all(conn)
    .await
}

/// Sets a dispatch's usage; its run counts all of it.
pub async fn set(conn: &mut PgConnection, dispatch: DispatchId, used: &Usage) -> sqlx::Result<()> {
    sqlx::query!(
        "update dispatches
         set input_tokens = $2, output_tokens = $3, cached_tokens = $4, cache_write_tokens = $5, context_tokens = $6, cost_usd = $7,
             cost_basis = $8::text::cost_basis
         where id = $1",
        dispatch.0,
        used.input_tokens.map(whole),
        used.output_tokens.map(whole),
        used.cached_tokens.map(whole),
        used.cache_write_tokens.map(whole),
        used.context_tokens.map(whole),
        used.cost_usd,
        basis(used),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A live dispatch that shares its run's limits with others.
#[derive(Debug, Clone)]
pub struct Sharing {
    pub id: DispatchId,
    pub run: RunId,
    pub task: TaskId,
    pub feature: FeatureId,
    pub account: Option<String>,
    pub share: Share,
    /// Millionths of a US dollar, and tokens.
    pub used: (u64, u64),
}

/// A worker's live dispatches, and the rest of their runs' limits. The caller holds the claims lock, so that
/// nobody else grants shares.
pub async fn sharing(
    conn: &mut PgConnection,
    worker: &str,
    ids: &[Uuid],
) -> sqlx::Result<(Vec<Sharing>, HashMap<RunId, Purse>)> {
    let rows = sqlx::query!(
        r#"select d.id, d.run_id, d.task_id, d.feature_id, d.account, d.share_microusd, d.share_tokens, coalesce(d.cost_usd, 0) as "cost_usd!",
                  coalesce(greatest(coalesce(d.input_tokens, 0) + coalesce(d.output_tokens, 0), d.context_tokens), 0) as "tokens!",
                  r.max_cost_usd, r.max_tokens, r.cost_usd + held.usd as "held_usd!",
                  r.input_tokens + r.output_tokens + held.tokens as "held_tokens!"
           from dispatches d
           join runs r on r.id = d.run_id
           cross join lateral (
             select coalesce(sum(greatest(coalesce(o.cost_usd, 0), coalesce(o.share_microusd, 0) / 1e6)), 0) as usd,
                    coalesce(sum(greatest(coalesce(o.input_tokens, 0) + coalesce(o.output_tokens, 0), o.context_tokens,
                                          o.share_tokens)), 0)::bigint as tokens
             from dispatches o
             where o.feature_id = d.feature_id and o.state = 'live' and o.run_id = d.run_id
           ) held
           where d.id = any($1) and d.worker = $2 and d.state = 'live'
           order by d.id"#,
        ids,
        worker,
    )
    .fetch_all(conn)
    .await?;
    let mut purses = HashMap::new();
    let mut sharing = Vec::with_capacity(rows.len());
    for row in rows {
        let run = RunId(row.run_id);
        purses.entry(run).or_insert(Purse {
            microusd: row.max_cost_usd.map(|max| Pot {
                max: microusd(max),
                left: microusd(max - row.held_usd),
            }),
            tokens: row.max_tokens.map(|max| Pot {
                max,
                left: max.saturating_sub(row.held_tokens),
            }),
        });
        sharing.push(Sharing {
            id: DispatchId(row.id),
            run,
            task: TaskId(row.task_id),
            feature: FeatureId(row.feature_id),
            account: row.account,
            share: Share {
                microusd: row.share_microusd.map(count),
                tokens: row.share_tokens.map(count),
            },
            used: (count(microusd(row.cost_usd)), count(row.tokens)),
        });
    }
    Ok((sharing, purses))
}

/// Gives a dispatch another share.
pub async fn give(conn: &mut PgConnection, dispatch: DispatchId, share: Share) -> sqlx::Result<()> {
    sqlx::query!(
        "update dispatches set share_microusd = $2, share_tokens = $3 where id = $1 and state = 'live'",
        dispatch.0,
        share.microusd.map(whole),
        share.tokens.map(whole),
    )
    .execute(conn)
    .await?;
    Ok(())
}
