//! Ended dispatches and runs, for traces.

use ralph_shared::ids::{DispatchId, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::StepTime;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::domain::failure::Failure;
use crate::domain::states::{Outcome, RunOutcome};
use crate::domain::trace::{DispatchFacts, RunFacts};

/// Facts on the `ids` that have ended, without dispatches of deleted tasks.
///
/// A task was ready when its last earlier dispatch ended, its last blocker was done, or the run started.
/// Later delays (a pause, a back-off, a limit) count as waiting.
pub async fn dispatches(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<DispatchFacts>> {
    let rows = sqlx::query!(
        r#"select d.id, d.run_id, d.task_id, d.kind as "kind: SessionKind", d.attempt, d.worker, d.agent, d.model, d.model_used,
                  d.outcome as "outcome: Outcome", d.failure as "failure: Failure", d.stop_reason, d.input_tokens, d.output_tokens, d.cost_usd,
                  d.tool_calls, d.commit, d.gate_times as "gate_times: Json<Vec<StepTime>>", d.claimed_at, d.settled_at as "settled_at!",
                  began.id as "began_with!", f.name as feature, x.key, x.title,
                  greatest(r.started_at, own.settled_at, blockers.settled_at) as ready_at
           from unnest($1::uuid[]) as q(named)
           cross join lateral (select * from dispatches where id = q.named and settled_at is not null limit 1) d
           cross join lateral (select name from features where id = d.feature_id limit 1) f
           cross join lateral (select key, title from task_texts where task_id = d.task_id limit 1) x
           cross join lateral (select started_at from runs where id = d.run_id limit 1) r
           cross join lateral (
             select id from dispatches where task_id = d.task_id and attempt = d.attempt order by id limit 1
           ) began
           left join lateral (
             select settled_at from dispatches where task_id = d.task_id and id < d.id order by id desc limit 1
           ) own on true
           cross join lateral (
             select max(last.settled_at) as settled_at
             from (select blocker_id from dependencies where task_id = d.task_id limit 100) e
             cross join lateral (
               select settled_at from dispatches where task_id = e.blocker_id order by id desc limit 1
             ) last
           ) blockers"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| DispatchFacts {
            dispatch: DispatchId(row.id),
            began_with: DispatchId(row.began_with),
            run: RunId(row.run_id),
            feature: row.feature,
            task: TaskId(row.task_id),
            key: row.key,
            title: row.title,
            kind: row.kind,
            attempt: row.attempt,
            worker: row.worker,
            agent: row.agent,
            model: row.model,
            model_used: row.model_used,
            outcome: row.outcome,
            failure: row.failure,
            stop_reason: row.stop_reason,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            cost: row.cost_usd,
            tool_calls: row.tool_calls,
            commit: row.commit,
            ready_at: row.ready_at,
            claimed_at: row.claimed_at,
            settled_at: row.settled_at,
            gate_times: row.gate_times.map(|times| times.0).unwrap_or_default(),
        })
        .collect())
}

/// Facts on the `ids` that have ended.
pub async fn runs(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<RunFacts>> {
    let rows = sqlx::query!(
        r#"select r.id, f.name as feature, f.repo_id, r.outcome as "outcome!: RunOutcome", r.iterations, r.input_tokens,
                  r.output_tokens, r.cost_usd, r.started_at, r.ended_at as "ended_at!"
           from unnest($1::uuid[]) as q(named)
           cross join lateral (select * from runs where id = q.named and ended_at is not null limit 1) r
           cross join lateral (select name, repo_id from features where id = r.feature_id limit 1) f"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| RunFacts {
            run: RunId(row.id),
            feature: row.feature,
            repository: row.repo_id,
            outcome: row.outcome,
            iterations: row.iterations,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            cost: row.cost_usd,
            started_at: row.started_at,
            ended_at: row.ended_at,
        })
        .collect())
}
