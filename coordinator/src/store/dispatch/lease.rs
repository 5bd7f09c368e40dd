//! Leases of dispatches: renewal, end, loss (DESIGN 2).

use ralph_shared::ids::{DispatchId, FeatureId, Incarnation, TaskId};
use ralph_shared::wire::EndReason;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::failure::Failure;
use crate::store::dispatch::DispatchState;

/// Renews the leases of a worker's dispatches for this incarnation, by the database's clock. Does not write
/// leases that were renewed within the last tenth of a lease: the gain is not worth the write. Leaves other
/// workers' leases alone.
pub async fn renew(
    conn: &mut PgConnection,
    (worker, incarnation): (&str, Incarnation),
    ids: &[Uuid],
    lease_ms: i64,
) -> sqlx::Result<()> {
    sqlx::query!(
        "with mine as (
           select id
           from dispatches
           cross join (select data_id from workers where name = $4) w
           where id = any($2) and state = 'live' and worker = $4
             and (incarnation <> $1 or lease_until < now() + 0.9 * $3 * interval '1 millisecond')
             and (
               incarnation = $1
               or coalesce((select data_id from worker_lives l where l.incarnation = dispatches.incarnation), w.data_id) = w.data_id
             )
           order by id
           for no key update of dispatches
         )
         update dispatches d
         set lease_until = now() + $3 * interval '1 millisecond', incarnation = $1
         from mine
         where d.id = mine.id",
        incarnation.0,
        ids,
        lease_ms as f64,
        worker,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Facts on a dispatch that a heartbeat names.
#[derive(Debug, Clone)]
pub struct LeaseStatus {
    pub id: DispatchId,
    pub state: DispatchState,
    pub reported: bool,
    pub is_current: bool,
    pub end_reason: Option<EndReason>,
}

pub async fn status(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<LeaseStatus>> {
    let rows = sqlx::query!(
        r#"select d.id, d.state as "state: DispatchState", d.duration_ms is not null as "reported!",
                  coalesce(t.dispatch_id = d.id, false) as "is_current!", d.end_reason
           from unnest($1::uuid[]) as q(named)
           cross join lateral (select * from dispatches where id = q.named limit 1) d
           cross join lateral (select dispatch_id from tasks where id = d.task_id limit 1) t"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| LeaseStatus {
            id: DispatchId(row.id),
            state: row.state,
            reported: row.reported,
            is_current: row.is_current,
            end_reason: row.end_reason.as_deref().map(end_reason),
        })
        .collect())
}

/// Asks live dispatches of a feature or of one task to end; returns them with their workers.
pub async fn request_end(
    conn: &mut PgConnection,
    feature: FeatureId,
    task: Option<TaskId>,
    reason: EndReason,
) -> sqlx::Result<Vec<(DispatchId, String)>> {
    let rows = sqlx::query!(
        "update dispatches
         set end_reason = $3
         where feature_id = $1 and state = 'live' and ($2::uuid is null or task_id = $2) and kind not in ('integrate', 'git')
         returning id, worker",
        feature.0,
        task.map(|t| t.0),
        word(reason),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (DispatchId(row.id), row.worker))
        .collect())
}

/// The stored word for a session's reason to end.
fn word(reason: EndReason) -> &'static str {
    match reason {
        EndReason::RunLimit => "run_limit",
        _ => "interrupted",
    }
}

/// The reason for a stored word, including words of later releases.
fn end_reason(word: &str) -> EndReason {
    match word {
        "run_limit" => EndReason::RunLimit,
        _ => EndReason::Interrupted,
    }
}

/// A dispatch whose lease ended.
#[derive(Debug, Clone)]
pub struct Expired {
    pub id: DispatchId,
    pub task: TaskId,
    pub feature: FeatureId,
    pub worker: String,
    /// Whether its incarnation is over, or sent no heartbeat for a whole lease.
    pub worker_died: bool,
    /// Whether no other dispatch of that incarnation was lost with it.
    pub alone: bool,
}

/// Live dispatches with an ended lease, at most `limit`, and the database's time. `only_ended` restricts them
/// to dispatches that their worker gave up. So does a gap of more than `gap_ms` since `before`, the time of
/// the last call: while a machine sleeps, a server hangs or a clock is set, nobody can renew a lease.
pub async fn expired(
    conn: &mut PgConnection,
    lease_ms: i64,
    only_ended: bool,
    limit: i64,
    (before, gap_ms): (Option<OffsetDateTime>, i64),
) -> sqlx::Result<(OffsetDateTime, Vec<Expired>)> {
    let rows = sqlx::query!(
        r#"with too_long as materialized (
             select id
             from dispatches
             where state = 'live' and lease_until > now() + $3 * interval '1 millisecond' + interval '1 second'
             order by id
             for no key update skip locked
           ), clamped as (
             update dispatches d
             set lease_until = now() + $3 * interval '1 millisecond'
             from too_long
             where d.id = too_long.id
           )
           select clock.now as "now!", d.id as "id?", d.task_id as "task_id?", d.feature_id as "feature_id?", d.worker as "worker?",
                  d.worker_died as "worker_died?", d.other is null as "alone!"
           from (select now() as now) clock
           left join lateral (
             select of.id, of.task_id, of.feature_id, of.worker, coalesce(other.live, other.lost) as other,
                    not exists (
                      select 1 from workers w
                      where w.name = of.worker and w.incarnation = of.incarnation
                        and w.seen_at > now() - $3 * interval '1 millisecond'
                    ) as worker_died
             from dispatches of
             left join workers now_at on now_at.name = of.worker
             cross join lateral (
               -- What that life had and its lease hasn't ended yet, or what the next life found and reports itself; and what was lost before.
               select (select true from dispatches o
                       where o.state = 'live' and o.worker = of.worker and o.id <> of.id
                         and (o.incarnation = of.incarnation or o.claimed_at < now_at.started_at)
                       limit 1) as live,
                      (select true from dispatches o
                       where o.state = 'lost' and o.worker = of.worker and o.incarnation = of.incarnation and o.task_id <> of.task_id
                         and o.settled_at > now() - $3 * interval '1 millisecond'
                       limit 1) as lost
             ) other
             where of.state = 'live' and of.lease_until < now()
               and (of.lease_until = '-infinity'
                    or not $1 and coalesce(clock.now - $4 <= $5 * interval '1 millisecond', true))
             order by of.id
             limit $2
           ) d on true"#,
        only_ended,
        limit,
        lease_ms as f64,
        before,
        gap_ms as f64,
    )
    .fetch_all(conn)
    .await?;
    let now = rows.first().map_or(OffsetDateTime::UNIX_EPOCH, |row| row.now);
    let expired = rows.into_iter().filter_map(|row| {
        Some(Expired {
            id: DispatchId(row.id?),
            task: TaskId(row.task_id?),
            feature: FeatureId(row.feature_id?),
            worker: row.worker?,
            worker_died: row.worker_died?,
            alone: row.alone,
        })
    });
    Ok((now, expired.collect()))
}

/// The `ids` that are still live with an ended lease, locked: nobody renewed them meanwhile.
pub async fn still_expired(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "select id
         from dispatches
         where id = any($1) and state = 'live' and lease_until < now()
         order by id
         for no key update",
        ids,
    )
    .fetch_all(conn)
    .await
}

/// Marks dispatches as lost. Their runs count the known usage.
pub async fn lose(
    conn: &mut PgConnection,
    ids: &[Uuid],
    failures: &[Failure],
    reason: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "with live as (
           select d.id, q.failure
           from unnest($1::uuid[], $3::failure[]) as q(id, failure)
           join dispatches d on d.id = q.id
           where d.state = 'live'
           order by d.id
           for no key update of d
         ), lost as (
           update dispatches d
           set state = 'lost', outcome = 'lost', failure = live.failure, reason = $2, settled_at = now(),
               input_tokens = greatest(d.input_tokens, d.context_tokens - coalesce(d.output_tokens, 0))
           from live
           where d.id = live.id
           returning d.run_id, d.input_tokens, d.output_tokens, d.cost_usd, d.cost_basis
         )
         update runs r
         set input_tokens = r.input_tokens + s.input_tokens, output_tokens = r.output_tokens + s.output_tokens,
             cost_usd = r.cost_usd + s.cost_usd, estimated_usd = r.estimated_usd + s.estimated_usd,
             subscribed = r.subscribed + s.subscribed
         from (
           select run_id, coalesce(sum(input_tokens), 0)::bigint as input_tokens,
                  coalesce(sum(output_tokens), 0)::bigint as output_tokens, coalesce(sum(cost_usd), 0) as cost_usd,
                  coalesce(sum(cost_usd) filter (where cost_basis = 'estimated'), 0) as estimated_usd,
                  count(*) filter (where cost_basis = 'subscription') as subscribed
           from lost
           group by run_id
         ) s
         where r.id = s.run_id",
        ids,
        reason,
        failures as &[Failure],
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Marks live or lost dispatches as superseded, since a person took their task: a later report changes only
/// usage. Their runs count the known usage of live ones.
pub async fn supersede(conn: &mut PgConnection, ids: &[Uuid], reason: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "with held as (
           select id, state
           from dispatches
           where id = any($1) and state in ('live', 'lost')
           order by id
           for no key update
         ), superseded as (
           update dispatches d
           set state = 'superseded', settled_at = coalesce(settled_at, now()), outcome = coalesce(outcome, 'interrupted'),
               reason = coalesce(reason, $2),
               input_tokens = greatest(d.input_tokens, d.context_tokens - coalesce(d.output_tokens, 0))
           from held
           where d.id = held.id
           returning held.state as before, d.run_id, d.input_tokens, d.output_tokens, d.cost_usd, d.cost_basis
         )
         update runs r
         set input_tokens = r.input_tokens + s.input_tokens, output_tokens = r.output_tokens + s.output_tokens,
             cost_usd = r.cost_usd + s.cost_usd, estimated_usd = r.estimated_usd + s.estimated_usd,
             subscribed = r.subscribed + s.subscribed
         from (
           select run_id, coalesce(sum(input_tokens), 0)::bigint as input_tokens,
                  coalesce(sum(output_tokens), 0)::bigint as output_tokens, coalesce(sum(cost_usd), 0) as cost_usd,
                  coalesce(sum(cost_usd) filter (where cost_basis = 'estimated'), 0) as estimated_usd,
                  count(*) filter (where cost_basis = 'subscription') as subscribed
           from superseded
           where before = 'live'
           group by run_id
         ) s
         where r.id = s.run_id",
        ids,
        reason,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends the leases of a worker's earlier incarnations at once, except for `spooled` dispatches, whose report
/// the worker still holds.
pub async fn end_leases_of_earlier_incarnations(
    conn: &mut PgConnection,
    worker: &str,
    incarnation: Incarnation,
    spooled: &[Uuid],
) -> sqlx::Result<u64> {
    let ended = sqlx::query!(
        "update dispatches
         set lease_until = '-infinity'
         where state = 'live' and worker = $1 and incarnation <> $2 and id <> all($3)",
        worker,
        incarnation.0,
        spooled,
    )
    .execute(conn)
    .await?;
    Ok(ended.rows_affected())
}
