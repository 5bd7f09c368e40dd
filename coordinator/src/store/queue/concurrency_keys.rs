//! Concurrency keys: their limits, and the keys of a feature's tasks.

use std::collections::HashMap;

use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;

use crate::domain::scheduling::concurrency::Concurrency;

/// Records keys of a feature's tasks, and their limits.
pub async fn declare(
    conn: &mut PgConnection,
    feature: FeatureId,
    keys: impl Iterator<Item = &Concurrency>,
) -> sqlx::Result<()> {
    let limits: HashMap<String, i32> = keys.map(|one| (one.key.clone(), one.limit)).collect();
    if limits.is_empty() {
        return Ok(());
    }
    // In a fixed order, so that two transactions with the same keys do not deadlock.
    let mut limits: Vec<(String, i32)> = limits.into_iter().collect();
    limits.sort();
    let (keys, limits): (Vec<String>, Vec<i32>) = limits.into_iter().unzip();
    sqlx::query!(
        "insert into concurrency_keys as k (name, most)
         select * from unnest($1::text[], $2::int[])
         on conflict (name) do update set most = excluded.most
         where k.most <> excluded.most",
        &keys,
        &limits,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "update features
         set keys = array(select distinct unnest(keys || $2))
         where id = $1 and not keys @> $2",
        feature.0,
        &keys,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Gives a key to all tasks of a feature without one, queued tasks included. Waits for running claims: the
/// second pass sees tasks that those put back.
pub async fn give_feature(
    conn: &mut PgConnection,
    feature: FeatureId,
    concurrency: &Concurrency,
) -> sqlx::Result<()> {
    declare(conn, feature, std::iter::once(concurrency)).await?;
    sqlx::query!(
        "update features set concurrency = $2 where id = $1",
        feature.0,
        concurrency.key,
    )
    .execute(&mut *conn)
    .await?;
    for _pass in 0..2 {
        sqlx::query!(
            "update ready_tasks q
             set key = key_needed(q.kind, x.concurrency, $2)
             from task_texts x
             where q.feature_id = $1 and x.task_id = q.task_id",
            feature.0,
            concurrency.key,
        )
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// A task's own key.
pub async fn of_task(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<String>> {
    let key = sqlx::query_scalar!("select concurrency from task_texts where task_id = $1", task.0)
        .fetch_optional(conn)
        .await?;
    Ok(key.flatten())
}

/// Number of further sessions that may start with each of these keys; 0 for missing ones.
pub async fn rooms(conn: &mut PgConnection, keys: &[String]) -> sqlx::Result<HashMap<String, i64>> {
    let rows = sqlx::query!(
        r#"select k.name, k.most - live.n as "room!"
           from unnest($1::text[]) as of(name)
           join concurrency_keys k on k.name = of.name
           cross join lateral (
             select count(*) as n from dispatches where key = k.name and state = 'live'
           ) live"#,
        keys,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.name, row.room)).collect())
}
