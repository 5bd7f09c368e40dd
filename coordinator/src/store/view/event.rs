//! Events of all features, in order of time.

pub use ralph_api::view::{EventView, Happened};
use ralph_shared::ids::{FeatureId, RunId, TaskId};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

/// Sessions and runs that began earlier than this before `since` are not searched.
const LONGEST: time::Duration = time::Duration::days(7);

/// The newest `limit` events since then, oldest first, and whether there are more. Of one feature if given.
pub async fn events(
    conn: &mut PgConnection,
    since: OffsetDateTime,
    feature: Option<FeatureId>,
    limit: i64,
) -> sqlx::Result<(Vec<EventView>, bool)> {
    let rows = sqlx::query!(
        r#"select e.at as "at!", e.event as "event!: String", f.name as "feature?", e.task_id as "task?", x.key as "key?", x.title as "title?",
                  e.run_id as "run?", e.what as "what!", e.why, e.cost_usd
           from (
             select r.started_at as at, 'run_began' as event, r.feature_id, null::uuid as task_id, r.id as run_id, 'began' as what,
                    null::text as why, null::float8 as cost_usd
             from runs r
             where r.id >= $1 and r.started_at >= $2
             union all
             select ended.at, 'run_ended', ended.feature_id, null, ended.run_id, ended.outcome, ended.reason, null
             from (
               select r.ended_at as at, r.feature_id, r.id as run_id, r.outcome::text as outcome, r.reason
               from runs r
               where r.id >= $1 and r.ended_at >= $2
               union
               select n.at, n.feature_id, n.run_id, n.outcome::text, n.reason
               from notices n
               where n.id >= $3 and n.event = 'run_ended' and n.at >= $2
             ) ended
             union all
             select d.settled_at, 'attempt', d.feature_id, d.task_id, d.run_id,
                    d.kind::text || ' ' || d.attempt || ' ' || coalesce(d.outcome::text, d.state::text), d.reason, d.cost_usd
             from dispatches d
             where d.id >= $1 and d.settled_at >= $2 and d.kind <> 'integrate'
             union all
             select i.ended_at, 'landed', i.feature_id, i.task_id, null, 'landed', i.landed_commit, null
             from integrations i
             where i.state = 'merged' and i.ended_at >= $2
             union all
             select l.at, 'person', t.feature_id, l.task_id, null, l.what, concat_ws(': ', l.actor, l.why), null
             from task_logs l
             join tasks t on t.id = l.task_id
             where l.at >= $2
             union all
             select c.at, 'person', c.feature_id, null, null, c.verb, concat_ws(': ', c.actor, c.why), null
             from changes c
             where c.at >= $2 and c.kind = 'feature'
             union all
             select n.at, 'notice', n.feature_id, n.task_id, n.run_id, n.event::text, n.reason, null
             from notices n
             where n.id >= $3 and n.at >= $2 and n.event not in ('run_ended', 'person_needed')
           ) e
           left join features f on f.id = e.feature_id
           left join task_texts x on x.task_id = e.task_id
           where $4::uuid is null or e.feature_id = $4
           order by e.at desc, e.event desc, e.task_id
           limit $5::bigint + 1"#,
        first_id(since - LONGEST),
        since,
        first_id(since - time::Duration::HOUR),
        feature.map(|feature| feature.0),
        limit,
    )
    .fetch_all(conn)
    .await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    let events = rows.into_iter().take(limit).rev().map(|row| EventView {
        at: row.at,
        event: match row.event.as_str() {
            "run_began" => Happened::RunBegan,
            "run_ended" => Happened::RunEnded,
            "attempt" => Happened::Attempt,
            "landed" => Happened::Landed,
            "person" => Happened::Person,
            _ => Happened::Notice,
        },
        feature: row.feature,
        task: row.task.map(|id| TaskId(id).short()),
        key: row.key,
        title: row.title,
        run: row.run.map(|id| RunId(id).short()),
        what: row.what,
        why: row.why.filter(|why| !why.is_empty()),
        cost_usd: row.cost_usd,
    });
    Ok((events.collect(), more))
}

/// The smallest id of an object created at that time: ids begin with milliseconds.
fn first_id(at: OffsetDateTime) -> Uuid {
    let ms = u128::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(0);
    Uuid::from_u128(ms << 80)
}
