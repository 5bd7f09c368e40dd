//! Accounts over their rate or quota, or overloaded (SPEC 7.3).

use std::collections::HashMap;
use std::str::FromStr as _;
use std::time::Duration;

use ralph_shared::ids::{DispatchId, TaskId};
use ralph_shared::wire::Unavailable;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::failure::Failure;
use crate::domain::failure::silence::Silence;
use crate::domain::scheduling::availability::{
    BreakerState, PROBE_TIMEOUT, Pause, Probe, WIDEST, after_failure, breaker_state,
};

#[derive(Debug, Clone)]
pub struct Account {
    pub account: String,
    pub door: Unavailable,
    pub reason: String,
    /// Worker of the last failure.
    pub worker: String,
    pub failures: i32,
    /// Claims skip the account until then.
    pub until: OffsetDateTime,
    pub state: BreakerState,
    /// Most concurrent sessions on the account.
    pub width: i32,
}

/// Accounts that are paused or limited after a failure, the first to reopen first.
pub async fn not_open(conn: &mut PgConnection) -> sqlx::Result<Vec<Account>> {
    let rows = sqlx::query!(
        r#"select a.account, a.door, a.reason, a.worker, a.failures, a.until, a.probed_at,
                  coalesce(d.state = 'live', false) as "probe_is_live!", now() as "now!", a.width,
                  case when a.width = 1 then 0 else (
                    select count(*)
                    from dispatches l
                    join workers w on w.name = l.worker
                    where l.state = 'live' and l.kind not in ('integrate', 'git', 'check')
                      and account_of(w.agents, w.accounts, l.agent) = a.account
                  ) end as "live!"
           from account_doors a
           left join dispatches d on d.id = a.probe
           -- Whom nobody used for long isn't held back for what was.
           where a.width = 1 or a.widened_at > now() - make_interval(secs => $1)
           order by a.until, a.account"#,
        PROBE_TIMEOUT.as_secs_f64(),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Account {
            account: row.account,
            door: Unavailable::from_str(&row.door).unwrap_or(Unavailable::RateLimit),
            reason: row.reason,
            worker: row.worker,
            failures: row.failures,
            until: row.until,
            state: breaker_state(
                row.until,
                row.probed_at.map(|since| Probe {
                    since,
                    live: row.probe_is_live,
                }),
                (row.width, row.live),
                row.now,
            ),
            width: row.width,
        })
        .collect())
}

#[derive(Debug, Clone)]
pub struct Failed {
    pub account: String,
    pub door: Unavailable,
    pub reason: String,
    pub worker: String,
    pub dispatch: DispatchId,
    /// Pause that the provider asks for.
    pub asked: Option<Duration>,
}

/// Records a session's failure at its account. Returns the pause when its end moves later. Ignores a session
/// that started before the last failure: it met the same limit.
pub async fn failed(conn: &mut PgConnection, failed: &Failed) -> sqlx::Result<Option<Pause>> {
    // Another coordinator may record the same failure: the second one waits here, then sees the first one's
    // row.
    let row = sqlx::query!(
        r#"insert into account_doors as d (account, door, reason, worker, failures, closed_at, until)
           values ($1, $2, $3, $4, 1, now(), 'epoch')
           on conflict (account) do update set account = d.account
           returning failures, (until = 'epoch') as "is_first!", until, clock_timestamp() as "now!",
             coalesce((select s.claimed_at < d.closed_at from dispatches s where s.id = $5), false) as "is_older!""#,
        failed.account,
        failed.door.into_str(),
        failed.reason,
        failed.worker,
        failed.dispatch.0,
    )
    .fetch_one(&mut *conn)
    .await?;
    if row.is_older && !row.is_first {
        return Ok(None);
    }
    let before = (!row.is_first).then_some(Pause {
        failures: row.failures,
        until: row.until,
    });
    let pauses = Failure::of_unavailable(failed.door).policy().account;
    let pause = pauses.and_then(|pauses| {
        after_failure(
            before,
            pauses,
            failed.asked,
            rand::random_range(0.0..1.0),
            row.now,
        )
    });
    let Some(pause) = pause else {
        return Ok(None);
    };
    sqlx::query!(
        "update account_doors
         set door = $2, reason = $3, worker = $4, failures = $5, closed_at = now(), until = $6, width = 1, widened_at = null,
             probe = null, probed_at = null
         where account = $1",
        failed.account,
        failed.door.into_str(),
        failed.reason,
        failed.worker,
        pause.failures,
        pause.until,
    )
    .execute(conn)
    .await?;
    Ok(Some(pause))
}

/// Makes a dispatch the probe of an account.
pub async fn try_with(conn: &mut PgConnection, account: &str, dispatch: DispatchId) -> sqlx::Result<()> {
    sqlx::query!(
        "update account_doors set probe = $2, probed_at = now() where account = $1",
        account,
        dispatch.0,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records that the models of these dispatches answered. Accounts in recovery then admit more sessions.
pub async fn answered(conn: &mut PgConnection, dispatches: &[DispatchId]) -> sqlx::Result<()> {
    let ids: Vec<Uuid> = dispatches.iter().map(|dispatch| dispatch.0).collect();
    let of_accounts = sqlx::query!(
        r#"select a.account, d.id
           from dispatches d
           join workers w on w.name = d.worker
           join account_doors a on a.probe = d.id or a.width > 1 and a.account = account_of(w.agents, w.accounts, d.agent)
           where d.id = any($1)"#,
        &ids,
    )
    .fetch_all(&mut *conn)
    .await?;
    let of_accounts: Vec<(String, Uuid)> = of_accounts.into_iter().map(|row| (row.account, row.id)).collect();
    widen(conn, &of_accounts).await
}

/// Doubles the width of accounts that answered a session. Only sessions that started after the last doubling,
/// or after the failure, count. Deletes the row of an account at the greatest width, or long after its last
/// doubling: it is open.
async fn widen(conn: &mut PgConnection, answered: &[(String, Uuid)]) -> sqlx::Result<()> {
    if answered.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "with answered as (
           select account
           from account_doors a
           where exists (
             select from unnest($1::text[], $2::uuid[]) as s(account, dispatch_id)
             join dispatches d on d.id = s.dispatch_id
             where s.account = a.account and d.claimed_at >= coalesce(a.widened_at, a.closed_at)
           )
           order by account
           for update
         ), open as (
           delete from account_doors a
           using answered
           where a.account = answered.account and (a.width >= $3 or a.widened_at < now() - make_interval(secs => $4))
         )
         update account_doors a
         set width = a.width * 2, widened_at = clock_timestamp()
         from answered
         where a.account = answered.account and a.width < $3 and coalesce(a.widened_at >= now() - make_interval(secs => $4), true)",
        &answered
            .iter()
            .map(|(account, _)| account.clone())
            .collect::<Vec<_>>(),
        &answered.iter().map(|(_, dispatch)| *dispatch).collect::<Vec<_>>(),
        WIDEST,
        PROBE_TIMEOUT.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Clears failures after successful sessions: of their agents in the pools of `tasks`, and of accounts whose
/// session was claimed after the last failure.
pub async fn passed(
    conn: &mut PgConnection,
    tasks: &[(Uuid, String)],
    accounts: &[(String, Uuid)],
) -> sqlx::Result<()> {
    widen(conn, accounts).await?;
    sqlx::query!(
        "with empty as (
           delete from empty_turns where account = any($2)
         )
         delete from closed_doors c
         using unnest($1::uuid[], $3::text[]) as s(task_id, agent)
         join task_texts x on x.task_id = s.task_id
         where c.pool = x.pool and c.agent = s.agent",
        &tasks.iter().map(|(task, _)| *task).collect::<Vec<_>>(),
        &accounts
            .iter()
            .map(|(account, _)| account.clone())
            .collect::<Vec<_>>(),
        &tasks.iter().map(|(_, agent)| agent.clone()).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records empty turns, each with its account and task.
pub async fn was_empty(conn: &mut PgConnection, turns: &[(String, Uuid)]) -> sqlx::Result<()> {
    if turns.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into empty_turns (account, task_id)
         select distinct account, task_id from unnest($1::text[], $2::uuid[]) as t(account, task_id)
         on conflict do nothing",
        &turns
            .iter()
            .map(|(account, _)| account.clone())
            .collect::<Vec<_>>(),
        &turns.iter().map(|(_, task)| *task).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn silences(
    conn: &mut PgConnection,
    accounts: &[String],
) -> sqlx::Result<HashMap<String, Silence>> {
    let rows = sqlx::query!(
        r#"select a.account as "account!",
                  array(select e.task_id from empty_turns e where e.account = a.account) as "tasks!",
                  exists (select from account_doors d where d.account = a.account and d.width = 1) as "closed!"
           from unnest($1::text[]) as a(account)"#,
        accounts,
    )
    .fetch_all(conn)
    .await?;
    let silences = rows.into_iter().map(|row| {
        let silence = Silence {
            tasks: row.tasks.into_iter().map(TaskId).collect(),
            closed: row.closed,
        };
        (row.account, silence)
    });
    Ok(silences.collect())
}
