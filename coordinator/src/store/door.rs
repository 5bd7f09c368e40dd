//! Accounts whose provider limits the rate or is overloaded (SPEC 7.3).

use std::str::FromStr as _;

use ralph_shared::wire::Door;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::domain::door::{Pause, after_failure};

/// An account that sessions failed at.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Account {
    pub account: String,
    pub door: Door,
    pub reason: String,
    /// The worker that met it last.
    pub worker: String,
    pub failures: i32,
    /// Nothing that uses it is claimed before.
    pub until: OffsetDateTime,
}

/// The accounts that wait now, those that open first before the others.
pub async fn closed(conn: &mut PgConnection) -> sqlx::Result<Vec<Account>> {
    let rows = sqlx::query!(
        "select account, door, reason, worker, failures, until
         from account_doors
         where until > now()
         order by until, account"
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Account {
            account: row.account,
            door: Door::from_str(&row.door).unwrap_or(Door::RateLimit),
            reason: row.reason,
            worker: row.worker,
            failures: row.failures,
            until: row.until,
        })
        .collect())
}

/// A failure of an account.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Failed {
    pub account: String,
    pub door: Door,
    pub reason: String,
    pub worker: String,
}

/// Notes that a session failed at its account's door. Returns until when it waits now, if that is longer than before.
pub async fn failed(conn: &mut PgConnection, failed: &Failed) -> sqlx::Result<Option<Pause>> {
    // Another coordinator may note the same: whoever comes second waits here and sees what the first wrote.
    let row = sqlx::query!(
        r#"insert into account_doors as d (account, door, reason, worker, failures, closed_at, until)
           values ($1, $2, $3, $4, 1, now(), 'epoch')
           on conflict (account) do update set account = d.account
           returning failures, (until = 'epoch') as "is_first!", until, clock_timestamp() as "now!""#,
        failed.account,
        failed.door.as_str(),
        failed.reason,
        failed.worker,
    )
    .fetch_one(&mut *conn)
    .await?;
    let before = (!row.is_first).then_some(Pause {
        failures: row.failures,
        until: row.until,
    });
    let Some(pause) = after_failure(before, row.now) else {
        return Ok(None);
    };
    sqlx::query!(
        "update account_doors
         set door = $2, reason = $3, worker = $4, failures = $5, closed_at = now(), until = $6
         where account = $1",
        failed.account,
        failed.door.as_str(),
        failed.reason,
        failed.worker,
        pause.failures,
        pause.until,
    )
    .execute(conn)
    .await?;
    Ok(Some(pause))
}

/// Forgets failures of agents and accounts that sessions got past: of the pools of these tasks, as far as people are told,
/// and of the accounts of those sessions that were claimed after the last failure.
pub async fn passed(
    conn: &mut PgConnection,
    tasks: &[uuid::Uuid],
    accounts: &[(String, uuid::Uuid)],
) -> sqlx::Result<()> {
    sqlx::query!(
        "with accounts as (
           delete from account_doors a
           using unnest($2::text[], $3::uuid[]) as s(account, dispatch_id)
           where a.account = s.account
             and (select d.claimed_at from dispatches d where d.id = s.dispatch_id) >= a.closed_at
         )
         delete from closed_doors where pool in (select pool from task_texts where task_id = any($1))",
        tasks,
        &accounts
            .iter()
            .map(|(account, _)| account.clone())
            .collect::<Vec<_>>(),
        &accounts.iter().map(|(_, dispatch)| *dispatch).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}
