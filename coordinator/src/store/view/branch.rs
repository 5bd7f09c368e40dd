//! Landings on a feature's branch.

pub use ralph_api::view::Landing;
use ralph_shared::ids::{FeatureId, TaskId};
use sqlx::PgConnection;

use super::page::{Cursor, Page, cut};

pub async fn landings(
    conn: &mut PgConnection,
    feature: FeatureId,
    cursor: Cursor,
    limit: i64,
) -> sqlx::Result<Page<Landing>> {
    let rows = sqlx::query!(
        r#"select i.id, i.landed_commit as "commit!", i.task_id, x.key, x.title, i.attempt, i.empty, i.state = 'reverted' as "reverted!",
                  i.ended_at as "at!"
           from integrations i
           join task_texts x on x.task_id = i.task_id
           where i.feature_id = $1 and i.state in ('merged', 'reverted')
             and ($2::uuid is null
                  or (i.ended_at, i.id) < (select c.ended_at, c.id from integrations c where c.id = $2))
           order by i.ended_at desc, i.id desc
           limit $3::bigint + 1"#,
        feature.0,
        cursor.0,
        limit,
    )
    .fetch_all(conn)
    .await?;
    let (_, next) = cut(rows.iter().map(|row| row.id).collect(), limit);
    let items = rows
        .into_iter()
        .take(usize::try_from(limit).unwrap_or(0))
        .map(|row| Landing {
            commit: row.commit,
            task: TaskId(row.task_id).short(),
            key: row.key,
            title: row.title,
            attempt: row.attempt,
            empty: row.empty,
            reverted: row.reverted,
            at: row.at,
        })
        .collect();
    Ok(Page { items, next })
}
