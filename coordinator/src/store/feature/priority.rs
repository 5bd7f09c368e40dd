//! Order of features: weights, deadlines, start times, keys.

use ralph_shared::ids::FeatureId;
use sqlx::PgConnection;
use uuid::Uuid;

pub use crate::domain::scheduling::precedence::Precedence;
use crate::store::queue::concurrency_keys;

pub async fn set(conn: &mut PgConnection, feature: FeatureId, to: &Precedence) -> sqlx::Result<()> {
    if *to == Precedence::default() {
        return Ok(());
    }
    sqlx::query!(
        "update features
         set weight = coalesce($2, weight), not_before = case when $3 then $4 else not_before end,
             deadline = case when $5 then $6 else deadline end, stop_at_deadline = coalesce($7, stop_at_deadline),
             updated_at = now()
         where id = $1",
        feature.0,
        to.weight,
        to.not_before.is_some(),
        to.not_before.flatten(),
        to.deadline.is_some(),
        to.deadline.flatten(),
        to.stop_at_deadline,
    )
    .execute(&mut *conn)
    .await?;
    if let Some(concurrency) = &to.concurrency {
        concurrency_keys::give_feature(conn, feature, concurrency).await?;
    }
    Ok(())
}

/// Writes a notice for each running feature whose deadline passed, once per deadline. Returns the features.
/// Skips locked features until the next call.
pub async fn tell_late(conn: &mut PgConnection) -> sqlx::Result<Vec<FeatureId>> {
    let ids: Vec<Uuid> = sqlx::query_scalar!(
        r#"with late as (
             select id
             from features
             where state = 'running' and deadline <= now() and deadline_told is distinct from deadline
             for no key update skip locked
           ), told as (
             update features f set deadline_told = deadline from late where f.id = late.id
             returning f.id, f.current_run, f.deadline
           ), noted as (
             insert into notices (id, event, feature_id, run_id, reason)
             select gen_random_uuid(), 'deadline_passed', id, current_run,
                    'the deadline passed: ' || to_char(deadline at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"')
             from told
           )
           select id from told"#
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(FeatureId).collect())
}
