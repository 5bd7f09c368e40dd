use std::collections::HashMap;

pub use ralph_api::view::{RunLimits, RunView};
use ralph_shared::ids::FeatureId;
use sqlx::PgConnection;
use uuid::Uuid;

use super::page::{Cursor, Page, cut};
use crate::store;

/// Runs by key, in no particular order.
pub async fn runs(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<RunView>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let found = store::run::read(conn, ids).await?;
    let features: Vec<Uuid> = found.iter().map(|run| run.feature.0).collect();
    let names = sqlx::query!("select id, name from features where id = any($1)", &features)
        .fetch_all(conn)
        .await?;
    let names: HashMap<Uuid, String> = names.into_iter().map(|row| (row.id, row.name)).collect();
    let named = found.into_iter().map(|run| RunView {
        feature_name: names.get(&run.feature.0).cloned().unwrap_or_default(),
        ..RunView::from(run)
    });
    Ok(named.collect())
}

/// Runs, newest first; of one feature if given.
pub async fn runs_page(
    conn: &mut PgConnection,
    feature: Option<FeatureId>,
    cursor: Cursor,
    limit: i64,
) -> sqlx::Result<Page<RunView>> {
    let ids = sqlx::query_scalar!(
        "select id
         from runs
         where ($1::uuid is null or id < $1) and ($2::uuid is null or feature_id = $2)
         order by id desc
         limit $3::bigint + 1",
        cursor.0,
        feature.map(|feature| feature.0),
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let (ids, next) = cut(ids, limit);
    let mut found = store::run::read(conn, &ids).await?;
    found.sort_by_key(|run| std::cmp::Reverse(run.id));
    Ok(Page {
        items: found.into_iter().map(RunView::from).collect(),
        next,
    })
}
