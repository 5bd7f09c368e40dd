//! The benefit of memories: attempts with memory against held-out ones, and memories that are switched off
//! (SPEC 6.7).

use std::collections::{BTreeMap, HashMap};

use ralph_shared::ids::DispatchId;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::domain::recall::{Ended, Stratum, Sums};

/// The state of a memory's trial, as far as a claim needs it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrialStatus {
    /// Held-out attempts, counted up to the requested bound.
    pub held_out: i64,
    /// Whether it is switched off, since it was found to hurt.
    pub is_off: bool,
}

/// The trials of these repositories' memories, with held-out attempts counted up to `counted`.
pub async fn standings(
    conn: &mut PgConnection,
    repos: &[String],
    counted: i64,
) -> sqlx::Result<HashMap<String, TrialStatus>> {
    let rows = sqlx::query!(
        r#"select q.repo_id as "repo_id!", held.n as "held_out!", coalesce(s.off_since is not null, false) as "is_off!"
           from unnest($1::text[]) as q(repo_id)
           cross join lateral (
             select count(*) as n from (select 1 from memory_trials where repo_id = q.repo_id and held_out limit $2) h
           ) held
           left join memory_switches s on s.repo_id = q.repo_id"#,
        repos,
        counted,
    )
    .fetch_all(conn)
    .await?;
    let standing = rows.into_iter().map(|row| {
        let standing = TrialStatus {
            held_out: row.held_out,
            is_off: row.is_off,
        };
        (row.repo_id, standing)
    });
    Ok(standing.collect())
}

/// Whether a session gets no memory: it was held out, or the memory is switched off.
pub async fn is_withheld(conn: &mut PgConnection, dispatch: DispatchId, repo: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists (select from memory_trials where dispatch_id = $1 and held_out)
                  or exists (select from memory_switches where repo_id = $2 and off_since is not null) as "withheld!""#,
        dispatch.0,
        repo,
    )
    .fetch_one(conn)
    .await
}

/// First attempts at tasks that ended, by repository and model. Only first attempts at work are held out, so
/// others have nothing to compare with. Iterations, cost and time are those of finished tasks.
pub async fn strata(
    conn: &mut PgConnection,
    repo: Option<&str>,
) -> sqlx::Result<BTreeMap<String, Vec<Stratum>>> {
    let rows = sqlx::query!(
        r#"with ended as (
             select m.repo_id, coalesce(d.model, '') as model, m.held_out, m.outcome = 'landed' as landed,
                    t.state in ('done', 'failed') as is_over, t.attempt::float8 as iterations, of_task.cost_usd, of_task.seconds
             from memory_trials m
             cross join lateral (select task_id, model, attempt, kind from dispatches where id = m.dispatch_id limit 1) d
             cross join lateral (select state, attempt from tasks where id = d.task_id limit 1) t
             cross join lateral (
               select coalesce(sum(cost_usd), 0)::float8 as cost_usd, coalesce(sum(duration_ms), 0)::float8 / 1000 as seconds
               from dispatches where task_id = d.task_id
             ) of_task
             where m.outcome in ('landed', 'failed') and d.attempt = 1 and d.kind = 'work'
               and ($1::text is null or m.repo_id = $1)
               and m.at > coalesce((select counted_from from memory_switches s where s.repo_id = m.repo_id), '-infinity')
           )
           select repo_id, model as "model!", held_out, count(*) filter (where landed) as "landed!", count(*) as "ended!",
                  count(*) filter (where is_over) as "over!",
                  coalesce(sum(iterations) filter (where is_over), 0) as "iterations!",
                  coalesce(sum(iterations ^ 2) filter (where is_over), 0) as "iterations_squared!",
                  coalesce(sum(cost_usd) filter (where is_over), 0) as "cost!",
                  coalesce(sum(cost_usd ^ 2) filter (where is_over), 0) as "cost_squared!",
                  coalesce(sum(seconds) filter (where is_over), 0) as "seconds!",
                  coalesce(sum(seconds ^ 2) filter (where is_over), 0) as "seconds_squared!"
           from ended
           group by 1, 2, 3"#,
        repo,
    )
    .fetch_all(conn)
    .await?;
    let mut strata: BTreeMap<String, BTreeMap<String, Stratum>> = BTreeMap::new();
    for row in rows {
        let of_repo = strata.entry(row.repo_id).or_default();
        let stratum = of_repo.entry(row.model).or_default();
        let sums = |sum, squares| Sums {
            n: row.over,
            sum,
            squares,
        };
        let held_out = row.held_out;
        *side(&mut stratum.landed, held_out) = Ended {
            landed: row.landed,
            ended: row.ended,
        };
        *side(&mut stratum.iterations, held_out) = sums(row.iterations, row.iterations_squared);
        *side(&mut stratum.cost_usd, held_out) = sums(row.cost, row.cost_squared);
        *side(&mut stratum.seconds, held_out) = sums(row.seconds, row.seconds_squared);
    }
    let by_repo = strata.into_iter();
    Ok(by_repo
        .map(|(repo, strata)| (repo, strata.into_values().collect()))
        .collect())
}

/// The half of a (with memory, without memory) pair for an attempt.
fn side<T>((with, without): &mut (T, T), held_out: bool) -> &mut T {
    if held_out { without } else { with }
}

/// Switches a memory off. Returns whether it was on.
pub async fn switch_off(conn: &mut PgConnection, repo: &str, reason: &str) -> sqlx::Result<bool> {
    let switched = sqlx::query!(
        "insert into memory_switches as s (repo_id, off_since, reason) values ($1, now(), $2)
         on conflict (repo_id) do update set off_since = now(), reason = excluded.reason
         where s.off_since is null",
        repo,
        reason,
    )
    .execute(conn)
    .await?;
    Ok(switched.rows_affected() > 0)
}

/// Switches a memory on again and restarts its counts. Returns whether it was off.
pub async fn resume(conn: &mut PgConnection, repo: &str) -> sqlx::Result<bool> {
    let resumed = sqlx::query!(
        "update memory_switches set off_since = null, counted_from = now() where repo_id = $1 and off_since is not null",
        repo,
    )
    .execute(conn)
    .await?;
    Ok(resumed.rows_affected() > 0)
}

#[derive(Debug, Clone)]
pub struct SwitchedOff {
    pub repo_id: String,
    pub off_since: OffsetDateTime,
    pub reason: String,
}

/// The memories that are off, the newest first, at most 100.
pub async fn switched_off(conn: &mut PgConnection) -> sqlx::Result<Vec<SwitchedOff>> {
    sqlx::query_as!(
        SwitchedOff,
        r#"select repo_id, off_since as "off_since!", reason from memory_switches
           where off_since is not null
           order by off_since desc
           limit 100"#
    )
    .fetch_all(conn)
    .await
}
