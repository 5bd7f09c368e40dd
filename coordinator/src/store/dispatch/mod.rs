//! Dispatches: opened by a claim, kept alive by heartbeats, settled by a report.

pub mod context;
pub mod earlier;
pub mod lease;
pub mod outcomes;
pub mod prompt;
pub mod trace;
pub mod transcript;
pub mod usage;

use std::collections::HashMap;

use ralph_shared::attempts::AttemptPlace;
use ralph_shared::ids::{DispatchId, FeatureId, Incarnation, RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::Difficulty;
use ralph_shared::wire::{Basis, Change, OrphanRef, Share, StepTime, Usage};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::failure::Failure;
use crate::domain::states::Outcome;
use crate::store::dispatch::usage::{basis, count, whole};

#[derive(Debug, Clone)]
pub struct NewDispatch {
    pub id: DispatchId,
    pub task: TaskId,
    pub feature: FeatureId,
    pub run: RunId,
    pub kind: SessionKind,
    pub begins_attempt: bool,
    pub worker: String,
    pub incarnation: Incarnation,
    pub model: Option<String>,
    pub model_reason: Option<String>,
    /// The row of its prompts; `None` for work without an agent.
    pub prompts: Option<Uuid>,
    /// The worker's agent; `None` for the default one, and without an agent.
    pub agent: Option<String>,
    /// The agent's account, if the worker named it.
    pub account: Option<String>,
    /// Its share of the run's cost and tokens.
    pub share: Share,
    pub key: Option<String>,
    /// Kind of ref that stores its attempt at the remote.
    pub place: AttemptPlace,
}

/// Moves the fences of tasks that were taken out of the queue, and opens their dispatches with a lease of
/// `lease_ms`, in the order of task ids. Returns the attempt number of each opened dispatch.
pub async fn open(
    conn: &mut PgConnection,
    new: &[NewDispatch],
    lease_ms: i64,
) -> sqlx::Result<HashMap<DispatchId, i32>> {
    let opened = sqlx::query!(
        r#"-- The update locks the rows as it meets them; locking them before would write each once more. Nor does an arbiter of
           -- conflicts look each id up and confirm it: hardly any stands already.
           with moved as (
             update tasks t
             set state = 'in_progress', dispatch_id = mine.id, -- The check of an attempt belongs to it.
                 attempt = t.attempt + (mine.begins_attempt and (mine.kind <> 'check' or t.role = 'check'))::int
             from (
               select *
               from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::session_kind[], $6::bool[], $7::text[], $8::uuid[],
                           $9::text[], $10::text[], $11::uuid[], $12::text[], $14::bigint[], $15::bigint[], $16::text[],
                           $17::text[], $18::bool[])
                 as g(id, task_id, feature_id, run_id, kind, begins_attempt, worker, incarnation, model, model_reason, prompts_id,
                      agent, share_microusd, share_tokens, key, account, in_branch)
               order by task_id
             ) mine
             where t.id = mine.task_id
             returning mine.*, t.attempt, t.start_commit
           )
           insert into dispatches
             (id, task_id, feature_id, run_id, kind, attempt, worker, incarnation, start_commit, model, model_reason, prompts_id,
              agent, share_microusd, share_tokens, key, account, in_branch, lease_until)
           select id, task_id, feature_id, run_id, kind, attempt, worker, incarnation, start_commit, model, model_reason,
                  prompts_id, agent, share_microusd, share_tokens, key, account, in_branch, now() + $13 * interval '1 millisecond'
           from moved
           returning id, attempt"#,
        &new.iter().map(|d| d.id.0).collect::<Vec<_>>(),
        &new.iter().map(|d| d.task.0).collect::<Vec<_>>(),
        &new.iter().map(|d| d.feature.0).collect::<Vec<_>>(),
        &new.iter().map(|d| d.run.0).collect::<Vec<_>>(),
        &new.iter().map(|d| d.kind).collect::<Vec<_>>() as &[SessionKind],
        &new.iter().map(|d| d.begins_attempt).collect::<Vec<_>>(),
        &new.iter().map(|d| d.worker.clone()).collect::<Vec<_>>(),
        &new.iter().map(|d| d.incarnation.0).collect::<Vec<_>>(),
        &new.iter().map(|d| d.model.clone()).collect::<Vec<_>>() as &[Option<String>],
        &new.iter().map(|d| d.model_reason.clone()).collect::<Vec<_>>() as &[Option<String>],
        &new.iter().map(|d| d.prompts).collect::<Vec<_>>() as &[Option<Uuid>],
        &new.iter().map(|d| d.agent.clone()).collect::<Vec<_>>() as &[Option<String>],
        lease_ms as f64,
        &new.iter().map(|d| d.share.microusd.map(whole)).collect::<Vec<_>>() as &[Option<i64>],
        &new.iter().map(|d| d.share.tokens.map(whole)).collect::<Vec<_>>() as &[Option<i64>],
        &new.iter().map(|d| d.key.clone()).collect::<Vec<_>>() as &[Option<String>],
        &new.iter().map(|d| d.account.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &new.iter().map(|d| d.place == AttemptPlace::Branches).collect::<Vec<_>>(),
    )
    .fetch_all(conn)
    .await?;
    Ok(opened
        .into_iter()
        .map(|row| (DispatchId(row.id), row.attempt))
        .collect())
}

#[derive(Debug, Clone)]
pub struct Dispatch {
    pub id: DispatchId,
    pub task: TaskId,
    pub feature: FeatureId,
    pub run: RunId,
    pub kind: SessionKind,
    pub attempt: i32,
    /// Kind of ref that stores its attempt at the remote.
    pub place: AttemptPlace,
    pub state: DispatchState,
    /// Whether its report was read, in time or late.
    pub reported: bool,
    pub worker: String,
    pub incarnation: Incarnation,
    pub end_reason: Option<String>,
    pub feedback: Option<String>,
    pub start_commit: Option<String>,
    pub model: Option<String>,
    pub model_reason: Option<String>,
    /// The worker's agent, while the dispatch is live; `None` for the default one.
    pub agent: Option<String>,
    /// The row of its prompts.
    pub prompts: Option<Uuid>,
    pub outcome: Option<Outcome>,
    /// Whether its work is known to be on its attempt ref.
    pub pushed: bool,
    /// Known usage. Its run counts it once the dispatch is no longer live.
    pub used: Usage,
    /// Its share of the run's cost and tokens.
    pub share: Share,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "dispatch_state", rename_all = "snake_case")]
pub enum DispatchState {
    /// Leased.
    Live,
    /// Its report was applied.
    Settled,
    /// Its lease ended. Its report is accepted while the fence does not move.
    Lost,
    /// The fence moved; a report changes only usage.
    Superseded,
}

/// Reads dispatches without a lock. Their state changes only under their feature's lock; leases may be
/// renewed meanwhile.
pub async fn read(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Dispatch>> {
    let rows = sqlx::query!(
        r#"select id, task_id, feature_id, run_id, kind as "kind: SessionKind", attempt, state as "state: DispatchState",
                  duration_ms is not null as "reported!", worker, incarnation, end_reason, feedback, start_commit, model,
                  model_reason, agent, prompts_id, outcome as "outcome: Outcome", pushed_ref is not null as "pushed!", in_branch,
                  input_tokens, output_tokens, cached_tokens, cache_write_tokens, context_tokens, cost_usd, cost_basis::text,
                  share_microusd, share_tokens
           from unnest($1::uuid[]) as q(named)
           cross join lateral (select * from dispatches where id = q.named limit 1) d"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Dispatch {
            id: DispatchId(row.id),
            task: TaskId(row.task_id),
            feature: FeatureId(row.feature_id),
            run: RunId(row.run_id),
            kind: row.kind,
            attempt: row.attempt,
            place: place(row.in_branch),
            state: row.state,
            reported: row.reported,
            worker: row.worker,
            incarnation: Incarnation(row.incarnation),
            end_reason: row.end_reason,
            feedback: row.feedback,
            start_commit: row.start_commit,
            model: row.model,
            model_reason: row.model_reason,
            agent: row.agent,
            prompts: row.prompts_id,
            outcome: row.outcome,
            pushed: row.pushed,
            used: Usage {
                input_tokens: row.input_tokens.map(count),
                output_tokens: row.output_tokens.map(count),
                cached_tokens: row.cached_tokens.map(count),
                cache_write_tokens: row.cache_write_tokens.map(count),
                context_tokens: row.context_tokens.map(count),
                cost_usd: row.cost_usd,
                basis: row.cost_basis.as_deref().and_then(Basis::of),
            },
            share: Share {
                microusd: row.share_microusd.map(count),
                tokens: row.share_tokens.map(count),
            },
        })
        .collect())
}

/// Converts the row's flag for attempts in branches.
pub(super) fn place(in_branch: bool) -> AttemptPlace {
    match in_branch {
        true => AttemptPlace::Branches,
        false => AttemptPlace::Refs,
    }
}

/// Records that a dispatch's work was pushed after its end.
pub async fn pushed_late(
    conn: &mut PgConnection,
    dispatch: DispatchId,
    commit: &str,
    pushed_ref: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update dispatches set commit = $2, pushed_ref = $3, in_branch = starts_with($3, 'refs/heads/') where id = $1 and pushed_ref is null",
        dispatch.0,
        commit,
        pushed_ref,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records an agent's orphan commits that were published after its report.
pub async fn record_late_orphans(
    conn: &mut PgConnection,
    dispatch: DispatchId,
    strays: &[OrphanRef],
) -> sqlx::Result<()> {
    sqlx::query!(
        "update dispatches set strays = $2::text::jsonb where id = $1",
        dispatch.0,
        json(strays),
    )
    .execute(conn)
    .await?;
    Ok(())
}

fn json<T: Serialize>(list: &[T]) -> Option<String> {
    (!list.is_empty())
        .then(|| serde_json::to_string(list).ok())
        .flatten()
}

#[derive(Debug, Clone)]
pub struct End {
    pub id: DispatchId,
    pub state: DispatchState,
    pub outcome: Outcome,
    pub failure: Option<Failure>,
    /// The signature that recognises the same failure again.
    pub failure_signature: Option<String>,
    pub reason: Option<String>,
    pub journal: Option<String>,
    pub commit: Option<String>,
    pub pushed_ref: Option<String>,
    pub files_changed: Vec<String>,
    pub stop_reason: Option<String>,
    pub agent: Option<String>,
    pub duration_ms: i64,
    pub used: Usage,
    pub tool_calls: i32,
    pub malformed_sigils: i32,
    /// Number within its run, for iterations.
    pub iteration: Option<i32>,
    pub difficulty: Option<Difficulty>,
    /// The part of the task's change to store.
    pub change: Option<Change>,
    /// Refs of the agent's orphan commits.
    pub strays: Vec<OrphanRef>,
    /// The model in use, if it differs from the chosen one.
    pub model_used: Option<String>,
    /// Durations of the gate's commands.
    pub gate_times: Vec<StepTime>,
}

/// Writes the ends of dispatches, in the order of their ids.
pub async fn end(conn: &mut PgConnection, ends: &[End]) -> sqlx::Result<()> {
    if ends.is_empty() {
        return Ok(());
    }
    let mut ends: Vec<&End> = ends.iter().collect();
    ends.sort_by_key(|end| end.id);
    let files: Vec<String> = ends
        .iter()
        .map(|e| serde_json::to_string(&e.files_changed).unwrap_or_else(|_| "[]".to_owned()))
        .collect();
    let changes: Vec<Option<String>> = ends
        .iter()
        .map(|e| {
            e.change
                .as_ref()
                .and_then(|change| serde_json::to_string(change).ok())
        })
        .collect();
    let tokens = |of: fn(&Usage) -> Option<u64>| -> Vec<Option<i64>> {
        ends.iter().map(|e| of(&e.used).map(whole)).collect()
    };
    let strays: Vec<Option<String>> = ends.iter().map(|e| json(&e.strays)).collect();
    let gate_times: Vec<Option<String>> = ends.iter().map(|e| json(&e.gate_times)).collect();
    sqlx::query!(
        "update dispatches d
         set state = e.state, outcome = e.outcome, reason = e.reason, journal = e.journal, commit = e.commit,
             pushed_ref = e.pushed_ref,
             files_changed = case when e.files = '[]' then null
                                  else array(select jsonb_array_elements_text(e.files::jsonb)) end,
             stop_reason = e.stop_reason, agent = e.agent, duration_ms = e.duration_ms,
             input_tokens = e.input_tokens, output_tokens = e.output_tokens, cost_usd = e.cost_usd,
             cached_tokens = e.cached_tokens, cache_write_tokens = e.cache_write_tokens, context_tokens = e.context_tokens,
             tool_calls = e.tool_calls, malformed_sigils = e.malformed_sigils, iteration = e.iteration,
             difficulty = e.difficulty, change = e.change::jsonb, strays = e.strays::jsonb,
             model_used = e.model_used, cost_basis = e.cost_basis::cost_basis, failure = e.failure,
             failure_signature = e.failure_signature, gate_times = e.gate_times::jsonb, settled_at = now()
         from unnest($1::uuid[], $2::dispatch_state[], $3::attempt_outcome[], $4::text[], $5::text[], $6::text[],
                     $7::text[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[],
                     $14::float8[], $15::int[], $16::int[], $17::int[], $18::text[], $19::text[], $20::text[],
                     $21::text[], $22::bigint[], $23::bigint[], $24::bigint[], $25::text[], $26::failure[],
                     $27::text[], $28::text[])
           as e(id, state, outcome, reason, journal, commit, pushed_ref, files, stop_reason, agent, duration_ms,
                input_tokens, output_tokens, cost_usd, tool_calls, malformed_sigils, iteration, difficulty,
                change, strays, model_used, cached_tokens, cache_write_tokens, context_tokens, cost_basis, failure,
                failure_signature, gate_times)
         where d.id = e.id",
        &ends.iter().map(|e| e.id.0).collect::<Vec<_>>(),
        &ends.iter().map(|e| e.state).collect::<Vec<_>>() as &[DispatchState],
        &ends.iter().map(|e| e.outcome).collect::<Vec<_>>() as &[Outcome],
        &ends.iter().map(|e| e.reason.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &ends.iter().map(|e| e.journal.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &ends.iter().map(|e| e.commit.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &ends.iter().map(|e| e.pushed_ref.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &files,
        &ends.iter().map(|e| e.stop_reason.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &ends.iter().map(|e| e.agent.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &ends.iter().map(|e| e.duration_ms).collect::<Vec<_>>(),
        &tokens(|used| used.input_tokens) as &[Option<i64>],
        &tokens(|used| used.output_tokens) as &[Option<i64>],
        &ends.iter().map(|e| e.used.cost_usd).collect::<Vec<_>>() as &[Option<f64>],
        &ends.iter().map(|e| e.tool_calls).collect::<Vec<_>>(),
        &ends.iter().map(|e| e.malformed_sigils).collect::<Vec<_>>(),
        &ends.iter().map(|e| e.iteration).collect::<Vec<_>>() as &[Option<i32>],
        &ends.iter().map(|e| e.difficulty.map(|one| one.into_str())).collect::<Vec<_>>() as &[Option<&str>],
        &changes as &[Option<String>],
        &strays as &[Option<String>],
        &ends.iter().map(|e| e.model_used.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &tokens(|used| used.cached_tokens) as &[Option<i64>],
        &tokens(|used| used.cache_write_tokens) as &[Option<i64>],
        &tokens(|used| used.context_tokens) as &[Option<i64>],
        &ends.iter().map(|e| basis(&e.used)).collect::<Vec<_>>() as &[Option<&str>],
        &ends.iter().map(|e| e.failure).collect::<Vec<_>>() as &[Option<Failure>],
        &ends.iter().map(|e| e.failure_signature.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
        &gate_times as &[Option<String>],
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn live_count(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select count(*) as "n!" from dispatches where feature_id = $1 and state = 'live'"#,
        feature.0,
    )
    .fetch_one(conn)
    .await
}

/// Live dispatches of these tasks, with their workers.
pub async fn live_of_tasks(
    conn: &mut PgConnection,
    tasks: &[Uuid],
) -> sqlx::Result<Vec<(DispatchId, String)>> {
    let rows = sqlx::query!(
        "select d.id, d.worker
         from dispatches d
         join tasks t on t.id = d.task_id
         where t.id = any($1) and d.id = t.dispatch_id and d.state in ('live', 'lost')",
        tasks,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (DispatchId(row.id), row.worker))
        .collect())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    pub attempt: i32,
    pub commit: String,
    pub pushed_ref: String,
}

/// The work of the last attempt that pushed anything.
pub async fn last_pushed(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<Pushed>> {
    sqlx::query_as!(
        Pushed,
        r#"select attempt, commit as "commit!", pushed_ref as "pushed_ref!"
           from dispatches
           where task_id = $1 and kind in ('work', 'review') and commit is not null and pushed_ref is not null
           order by claimed_at desc, id desc
           limit 1"#,
        task.0,
    )
    .fetch_optional(conn)
    .await
}

/// Longest stored feedback on one attempt. The oldest text is cut off. Characters.
pub const FEEDBACK_CHARS: i32 = 8_000;

/// Appends a person's feedback to that on a task's last attempt or its verification, for later sessions.
/// `false` when there is no attempt yet.
pub async fn note_feedback(conn: &mut PgConnection, task: TaskId, feedback: &str) -> sqlx::Result<bool> {
    let noted = sqlx::query!(
        "update dispatches
         set feedback = right(concat_ws(E'\\n', feedback, $2::text), $3)
         where id = (
           select id from dispatches
           where task_id = $1 and kind not in ('verify', 'integrate', 'check')
           order by claimed_at desc, id desc
           limit 1
         )",
        task.0,
        feedback,
        FEEDBACK_CHARS,
    )
    .execute(conn)
    .await?;
    Ok(noted.rows_affected() == 1)
}

/// The last feedback on an attempt of each of these tasks.
pub async fn last_feedback(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<(TaskId, String)>> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"select q.id as "task!", d.feedback as "feedback!"
           from unnest($1::uuid[]) as q(id)
           cross join lateral (
             select feedback from dispatches
             where task_id = q.id and feedback is not null
             order by id desc
             limit 1
           ) d"#,
        tasks,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (TaskId(row.task), row.feedback))
        .collect())
}

/// Feedback on the current attempts of tasks.
pub async fn feedback_of(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<(TaskId, String)>> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"select d.task_id, d.feedback as "feedback!"
           from dispatches d
           join tasks t on t.id = d.task_id and t.attempt = d.attempt
           where d.task_id = any($1) and d.kind not in ('verify', 'integrate', 'check') and d.feedback is not null"#,
        tasks,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (TaskId(row.task_id), row.feedback))
        .collect())
}

/// Reasons to doubt the last attempts of these tasks, whose agents consider them done.
pub async fn doubts(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<(TaskId, String)>> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"select d.task_id, d.reason as "reason!"
           from dispatches d
           join tasks t on t.id = d.task_id and t.attempt = d.attempt
           where d.task_id = any($1) and d.kind not in ('verify', 'integrate', 'check') and d.outcome = 'done' and d.reason is not null"#,
        tasks,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (TaskId(row.task_id), row.reason))
        .collect())
}
