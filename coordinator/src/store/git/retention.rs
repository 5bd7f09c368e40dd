//! Known attempt refs at a remote, and requests to remove them.

use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::integration::RefNames;
use crate::domain::states::TaskState;
use crate::store::dispatch::place;

/// A prune without a result may be tried again after this. Minutes.
const TRY_MINUTES: i32 = 10;

/// A ref that an ended dispatch may have pushed.
#[derive(Debug, Clone)]
pub struct KnownRef {
    pub dispatch: DispatchId,
    /// Full name.
    pub name: String,
    pub task: TaskState,
    pub landed: bool,
    /// Whether its push is known.
    pub pushed: bool,
}

/// The refs of a feature's dispatches that ended before `before` and are not known to be gone, oldest first.
pub async fn refs(
    conn: &mut PgConnection,
    feature: FeatureId,
    before: OffsetDateTime,
) -> sqlx::Result<Vec<KnownRef>> {
    let rows = sqlx::query!(
        r#"select d.id, d.task_id, d.attempt, d.in_branch, f.name, t.state as "state: TaskState",
                  d.pushed_ref is not null or coalesce(d.outcome in ('merged', 'void'), false) as "pushed!",
                  coalesce((
                    select true from integrations i where i.task_id = t.id and i.state in ('merged', 'reverted') limit 1
                  ), false) as "landed!"
           from features f
           join tasks t on t.feature_id = f.id
           join dispatches d on d.task_id = t.id
           where f.id = $1 and d.pruned_at is null and d.state <> 'live' and d.settled_at < $2
             and (d.kind in ('work', 'review', 'integrate') or (d.kind = 'git' and d.outcome = 'conflict'))
           order by d.settled_at, d.id"#,
        feature.0,
        before,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| KnownRef {
            dispatch: DispatchId(row.id),
            name: RefNames::new(&row.name, TaskId(row.task_id)).attempt_ref(
                place(row.in_branch),
                row.attempt,
                DispatchId(row.id),
            ),
            task: row.state,
            landed: row.landed,
            pushed: row.pushed,
        })
        .collect())
}

/// Requests the removal of a feature's attempts that ended before `before`.
pub async fn request_prune(
    conn: &mut PgConnection,
    feature: FeatureId,
    before: OffsetDateTime,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update features
         set prune_before = greatest(prune_before, $2), prune_tried_at = null, prune_error = null
         where id = $1",
        feature.0,
        before,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Requests the same for ended features with such attempts, at most `most`. Returns their number.
pub async fn request_prune_of_ended(
    conn: &mut PgConnection,
    before: OffsetDateTime,
    most: i64,
) -> sqlx::Result<u64> {
    let asked = sqlx::query!(
        "update features
         set prune_before = $1, prune_tried_at = null, prune_error = null
         where id in (
           select f.id
           from features f
           where f.state in ('done', 'failed', 'cancelled') and f.repo_address is not null and f.prune_before is null
             and exists (
               select 1
               from tasks t
               join dispatches d on d.task_id = t.id
               where t.feature_id = f.id and t.state in ('done', 'cancelled', 'skipped') and d.pruned_at is null
                 -- What is done and landed nowhere stays, whoever asks.
                 and (t.state <> 'done' or (
                   select true from integrations i where i.task_id = t.id and i.state in ('merged', 'reverted') limit 1
                 ))
                 and d.state <> 'live' and d.settled_at < $1 and d.kind in ('work', 'review', 'integrate')
             )
           order by f.id
           limit $2
           for update of f skip locked
         )",
        before,
        most,
    )
    .execute(conn)
    .await?;
    Ok(asked.rows_affected())
}

/// A feature whose refs a worker has to remove.
#[derive(Debug, Clone)]
pub struct ToPrune {
    pub feature: FeatureId,
    pub address: String,
    pub base: String,
    pub before: OffsetDateTime,
}

/// Takes the next feature with tasks in these pools and refs to remove.
pub async fn take(conn: &mut PgConnection, pools: &[String]) -> sqlx::Result<Option<ToPrune>> {
    let row = sqlx::query!(
        r#"update features
           set prune_tried_at = now()
           where id = (
             select f.id
             from features f
             where f.prune_before is not null and f.repo_address is not null and f.base_commit is not null
               and (f.prune_tried_at is null or f.prune_tried_at < now() - $2 * interval '1 minute')
               and exists (
                 select 1 from tasks t join task_texts x on x.task_id = t.id
                 where t.feature_id = f.id and x.pool = any($1)
               )
             order by f.prune_before, f.id
             limit 1
             for update of f skip locked
           )
           returning id, repo_address as "address!", base_commit as "base!", prune_before as "before!""#,
        pools,
        f64::from(TRY_MINUTES),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| ToPrune {
        feature: FeatureId(row.id),
        address: row.address,
        base: row.base,
        before: row.before,
    }))
}

/// Records that no refs are left to remove.
pub async fn over(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<()> {
    sqlx::query!(
        "update features set prune_before = null, prune_tried_at = null, prune_error = null where id = $1",
        feature.0,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records a worker's result; after an error the rest is tried again later.
pub async fn note(
    conn: &mut PgConnection,
    feature: FeatureId,
    gone: &[Uuid],
    error: Option<&str>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update dispatches set pruned_at = now() where id = any($1) and feature_id = $2 and state <> 'live'",
        gone,
        feature.0,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "update features
         set prune_error = $2, prune_tried_at = case when $2::text is null then null else prune_tried_at end
         where id = $1",
        feature.0,
        error,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The error of the last prune of a feature, if it failed.
pub async fn error(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<String>> {
    Ok(
        sqlx::query_scalar!("select prune_error from features where id = $1", feature.0)
            .fetch_optional(conn)
            .await?
            .flatten(),
    )
}
