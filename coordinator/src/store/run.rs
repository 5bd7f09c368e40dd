//! Runs: limits, usage, ends.

use std::collections::BTreeSet;

use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_shared::wire::GateStep;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::domain::routing::strategy::Strategy;
use crate::domain::run::{InFlight, Run, RunSettings, Spent};
use crate::domain::states::RunOutcome;

/// Opens a run of an existing feature, or of one of its tasks. [`super::feature::insert`] writes a run that
/// begins with its feature.
pub async fn insert(
    conn: &mut PgConnection,
    id: RunId,
    feature: FeatureId,
    settings: &RunSettings,
    only: Option<TaskId>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into runs
           (id, feature_id, max_iterations, max_time_ms, max_cost_usd, max_tokens, session_ms, idle_ms, output_bytes,
            backoff_ms, model, model_strategy, agent, gate, limit_grows, review, gate_may_fail, protect, only_task,
            landing, max_speculation, gate_retries, iterations, gate_steps, cold)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)",
        id.0,
        feature.0,
        settings.max_iterations,
        settings.max_time_ms,
        settings.max_cost_usd,
        settings.max_tokens,
        settings.session_ms,
        settings.idle_ms,
        settings.output_bytes,
        settings.backoff_ms,
        settings.model,
        settings.model_strategy.into_str(),
        settings.agent,
        &settings.gate,
        settings.limit_grows,
        settings.review,
        settings.gate_may_fail,
        &settings.protect,
        only.map(|task| task.0),
        settings.landing.into_str(),
        settings.max_speculation,
        settings.gate_retries,
        settings.first_iteration - 1,
        Json(&settings.gate_steps) as _,
        settings.cold,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn read(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Run>> {
    let rows = sqlx::query!(
        r#"select id, feature_id, only_task, max_iterations, max_time_ms, max_cost_usd, max_tokens, session_ms, idle_ms,
                  output_bytes, backoff_ms, model, model_strategy as "model_strategy: Strategy", agent, gate, limit_grows,
                  review, gate_may_fail, protect, landing, max_speculation, gate_retries, gate_steps as "gate_steps: Json<Vec<GateStep>>", cold, iterations, succeeded, r.input_tokens, r.output_tokens, r.cost_usd, started_at,
                  live.cost_usd as "live_usd!", live.tokens as "live_tokens!",
                  estimated_usd + live.estimated as "estimated_usd!", subscribed + live.paid as "subscribed!",
                  paused_ms + coalesce(extract(epoch from coalesce(ended_at, now()) - paused_at) * 1000, 0)::bigint as "paused_ms!",
                  ended_at, outcome as "outcome: RunOutcome", reason, f.not_before, f.deadline, f.stop_at_deadline,
                  now() as "now!"
           from runs r
           cross join lateral (select not_before, deadline, stop_at_deadline from features where id = r.feature_id limit 1) f
           cross join lateral (
             select coalesce(sum(d.cost_usd), 0) as cost_usd,
                    coalesce(sum(d.cost_usd) filter (where d.cost_basis = 'estimated'), 0) as estimated,
                    (count(*) filter (where d.cost_basis = 'subscription'))::int as paid,
                    coalesce(sum(greatest(coalesce(d.input_tokens, 0) + coalesce(d.output_tokens, 0), d.context_tokens)), 0)::bigint
                      as tokens
             from dispatches d
             where d.feature_id = r.feature_id and d.state = 'live' and d.run_id = r.id
           ) live
           where id = any($1)"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Run {
            id: RunId(row.id),
            feature: FeatureId(row.feature_id),
            only_task: row.only_task.map(TaskId),
            settings: RunSettings {
                max_iterations: row.max_iterations,
                first_iteration: 1,
                max_time_ms: row.max_time_ms,
                max_cost_usd: row.max_cost_usd,
                max_tokens: row.max_tokens,
                session_ms: row.session_ms,
                idle_ms: row.idle_ms,
                output_bytes: row.output_bytes,
                backoff_ms: row.backoff_ms,
                model: row.model,
                model_strategy: row.model_strategy,
                agent: row.agent,
                gate: row.gate,
                gate_steps: row.gate_steps.0,
                gate_may_fail: row.gate_may_fail,
                protect: row.protect,
                landing: row.landing.parse().unwrap_or_default(),
                max_speculation: row.max_speculation,
                gate_retries: row.gate_retries,
                limit_grows: row.limit_grows,
                review: row.review,
                cold: row.cold,
            },
            iterations: row.iterations,
            succeeded: row.succeeded,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            cost_usd: row.cost_usd,
            estimated_usd: row.estimated_usd,
            subscribed: row.subscribed,
            in_flight: InFlight {
                cost_usd: row.live_usd,
                tokens: row.live_tokens,
            },
            started_at: row.started_at,
            paused_ms: row.paused_ms,
            ended_at: row.ended_at,
            not_before: row.not_before,
            deadline: row.deadline,
            stop_at_deadline: row.stop_at_deadline,
            outcome: row.outcome,
            reason: row.reason,
            now: row.now,
        })
        .collect())
}

/// Records that the feature of a run is paused.
pub async fn pause(conn: &mut PgConnection, run: RunId) -> sqlx::Result<()> {
    sqlx::query!(
        "update runs set paused_at = now() where id = $1 and ended_at is null",
        run.0
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records the end of the pause.
pub async fn resume(conn: &mut PgConnection, run: RunId) -> sqlx::Result<()> {
    sqlx::query!(
        "update runs
         set paused_ms = paused_ms + greatest(extract(epoch from now() - paused_at) * 1000, 0)::bigint, paused_at = null
         where id = $1 and paused_at is not null and ended_at is null",
        run.0,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Reopens an ended run. Its usage counts on, without the time since its end.
pub async fn reopen(conn: &mut PgConnection, run: RunId) -> sqlx::Result<()> {
    sqlx::query!(
        "update runs
         set outcome = null, reason = null, ended_at = null, paused_at = null, journal_indexed_at = null,
             paused_ms = paused_ms + greatest(extract(epoch from now() - coalesce(paused_at, ended_at)) * 1000, 0)::bigint
         where id = $1 and ended_at is not null",
        run.0,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The newest run of a feature.
pub async fn last(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<Run>> {
    let id = sqlx::query_scalar!(
        "select id from runs where feature_id = $1 order by started_at desc limit 1",
        feature.0,
    )
    .fetch_optional(&mut *conn)
    .await?;
    match id {
        Some(id) => Ok(read(conn, &[id]).await?.pop()),
        None => Ok(None),
    }
}

/// Features whose run ended at a limit and could continue.
pub async fn at_limit(conn: &mut PgConnection) -> sqlx::Result<BTreeSet<FeatureId>> {
    let ids = sqlx::query_scalar!(
        "select f.id
         from features f
         join runs r on r.id = f.current_run
         where f.state = 'ready' and r.outcome = 'limit_reached'"
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(FeatureId).collect())
}

pub async fn running(conn: &mut PgConnection) -> sqlx::Result<Vec<Run>> {
    let ids = sqlx::query_scalar!(
        r#"select current_run as "id!" from features where state = 'running' and current_run is not null"#
    )
    .fetch_all(&mut *conn)
    .await?;
    read(conn, &ids).await
}

/// Gives the open run of a feature more iterations, up to `most`, if nobody chose their limit. Without
/// `most`, agents could split tasks for ever.
pub async fn allow(
    conn: &mut PgConnection,
    feature: FeatureId,
    iterations: i32,
    most: i32,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update runs set max_iterations = greatest(max_iterations, least(max_iterations + $2, $3))
         where feature_id = $1 and ended_at is null and limit_grows and max_iterations is not null",
        feature.0,
        iterations,
        most,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Changes limits and choices of an open run.
pub async fn change(conn: &mut PgConnection, id: RunId, settings: &RunSettings) -> sqlx::Result<()> {
    sqlx::query!(
        "update runs
         set max_iterations = $2, max_time_ms = $3, max_cost_usd = $4, max_tokens = $5, session_ms = $6, idle_ms = $7,
             output_bytes = $8, backoff_ms = $9, model = $10, model_strategy = $11, agent = $12, gate = $13,
             limit_grows = $14, review = $15, gate_may_fail = $16, protect = $17, landing = $18,
             max_speculation = $19, gate_retries = $20, gate_steps = $21, cold = $22
         where id = $1",
        id.0,
        settings.max_iterations,
        settings.max_time_ms,
        settings.max_cost_usd,
        settings.max_tokens,
        settings.session_ms,
        settings.idle_ms,
        settings.output_bytes,
        settings.backoff_ms,
        settings.model,
        settings.model_strategy.into_str(),
        settings.agent,
        &settings.gate,
        settings.limit_grows,
        settings.review,
        settings.gate_may_fail,
        &settings.protect,
        settings.landing.into_str(),
        settings.max_speculation,
        settings.gate_retries,
        Json(&settings.gate_steps) as _,
        settings.cold,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds reported usage to runs.
pub async fn spend<'s>(
    conn: &mut PgConnection,
    spent: impl Iterator<Item = (&'s RunId, &'s Spent)> + Clone,
) -> sqlx::Result<()> {
    let ids: Vec<Uuid> = spent.clone().map(|(run, _)| run.0).collect();
    if ids.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "update runs r
         set iterations = r.iterations + s.iterations, succeeded = greatest(0, r.succeeded + s.succeeded),
             input_tokens = r.input_tokens + s.input_tokens, output_tokens = r.output_tokens + s.output_tokens,
             cost_usd = r.cost_usd + s.cost_usd, estimated_usd = r.estimated_usd + s.estimated_usd,
             subscribed = r.subscribed + s.subscribed
         from unnest($1::uuid[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::float8[], $7::float8[], $8::int[])
                as s(id, iterations, succeeded, input_tokens, output_tokens, cost_usd, estimated_usd, subscribed)
         where r.id = s.id",
        &ids,
        &spent.clone().map(|(_, s)| s.iterations).collect::<Vec<_>>(),
        &spent.clone().map(|(_, s)| s.succeeded).collect::<Vec<_>>(),
        &spent.clone().map(|(_, s)| s.input_tokens).collect::<Vec<_>>(),
        &spent.clone().map(|(_, s)| s.output_tokens).collect::<Vec<_>>(),
        &spent.clone().map(|(_, s)| s.cost_usd).collect::<Vec<_>>(),
        &spent.clone().map(|(_, s)| s.estimated_usd).collect::<Vec<_>>(),
        &spent.map(|(_, s)| s.subscribed).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends a run; an ended one stays as it is.
pub async fn end(conn: &mut PgConnection, id: RunId, outcome: RunOutcome, reason: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "update runs set outcome = $2, reason = $3, ended_at = now() where id = $1 and ended_at is null",
        id.0,
        outcome as RunOutcome,
        reason,
    )
    .execute(conn)
    .await?;
    Ok(())
}
