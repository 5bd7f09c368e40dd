//! Attempts that are still branches. A worker moves them to refs of their own; then their rows follow.

use ralph_shared::attempts::{AttemptPlace, BRANCHES, REFS};
use ralph_shared::ids::{DispatchId, FeatureId, TaskId};
use ralph_shared::wire::AttemptRef;
use sqlx::PgConnection;
use uuid::Uuid;

use super::integration::RefNames;

/// A move without a result may be tried again after this. Minutes.
const TRY_MINUTES: i32 = 10;

/// A feature with attempts in branches.
#[derive(Debug, Clone)]
pub struct ToMove {
    pub feature: FeatureId,
    pub address: String,
    pub base: String,
}

/// Takes the next feature that has tasks in these pools and finished attempts that may be branches.
pub async fn take(conn: &mut PgConnection, pools: &[String]) -> sqlx::Result<Option<ToMove>> {
    let row = sqlx::query!(
        r#"update features
           set move_tried_at = now()
           where id = (
             select f.id
             from features f
             cross join lateral (
               select 1 from dispatches
               where feature_id = f.id and in_branch and pruned_at is null and state <> 'live'
               limit 1
             ) d
             cross join lateral (
               select 1 from tasks t join task_texts x on x.task_id = t.id
               where t.feature_id = f.id and x.pool = any($1)
               limit 1
             ) t
             where f.repo_address is not null and f.base_commit is not null
               and (f.move_tried_at is null or f.move_tried_at < now() - $2 * interval '1 minute')
             order by f.id
             limit 1
             for update of f skip locked
           )
           returning id, repo_address as "address!", base_commit as "base!""#,
        pools,
        f64::from(TRY_MINUTES),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| ToMove {
        feature: FeatureId(row.id),
        address: row.address,
        base: row.base,
    }))
}

/// At most `most` refs of a feature's finished attempts that may be branches, oldest first.
pub async fn refs(conn: &mut PgConnection, feature: FeatureId, most: i64) -> sqlx::Result<Vec<AttemptRef>> {
    let rows = sqlx::query!(
        r#"select d.id, d.task_id, d.attempt, f.name
           from dispatches d
           join features f on f.id = d.feature_id
           where d.feature_id = $1 and d.in_branch and d.pruned_at is null and d.state <> 'live'
           order by d.id
           limit $2"#,
        feature.0,
        most,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| AttemptRef {
            dispatch: DispatchId(row.id),
            name: RefNames::new(&row.name, TaskId(row.task_id)).attempt_ref(
                AttemptPlace::Branches,
                row.attempt,
                DispatchId(row.id),
            ),
        })
        .collect())
}

/// Records that the refs of `moved` are no longer branches. After a failure, a later try moves the rest.
pub async fn note(
    conn: &mut PgConnection,
    feature: FeatureId,
    moved: &[Uuid],
    has_failed: bool,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update features set move_tried_at = case when $2::bool then move_tried_at end where id = $1",
        feature.0,
        has_failed,
    )
    .execute(&mut *conn)
    .await?;
    // A task that continues from a moved ref finds it under its new name. A late report finds an old ref by
    // its commit.
    sqlx::query!(
        "update tasks t
         set start_ref = $3 || substr(t.start_ref, length($4) + 1)
         from dispatches d
         where d.id = any($2) and d.feature_id = $1 and t.id = d.task_id and starts_with(t.start_ref, $4)",
        feature.0,
        moved,
        REFS,
        BRANCHES,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "update dispatches
         set in_branch = false,
             pushed_ref = case when starts_with(pushed_ref, $4) then $3 || substr(pushed_ref, length($4) + 1) else pushed_ref end,
             strays = replace(strays::text, '\"' || $4, '\"' || $3)::jsonb
         where id = any($2) and feature_id = $1",
        feature.0,
        moved,
        REFS,
        BRANCHES,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "update integrations i
         set source_ref = case when starts_with(i.source_ref, $4) then $3 || substr(i.source_ref, length($4) + 1) else i.source_ref end,
             new_ref = case when starts_with(i.new_ref, $4) then $3 || substr(i.new_ref, length($4) + 1) else i.new_ref end
         from dispatches d
         where d.id = any($2) and d.feature_id = $1 and i.task_id = d.task_id
           and i.state in ('waiting', 'turn', 'decided')",
        feature.0,
        moved,
        REFS,
        BRANCHES,
    )
    .execute(conn)
    .await?;
    Ok(())
}
