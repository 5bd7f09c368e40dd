//! Ids as people type them: any unambiguous prefix of a short form; for features also the name (SPEC 1).

use ralph_shared::ids::{FeatureId, RunId, ShortPrefix, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

/// The rows that a prefix matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match<Id> {
    One(Id),
    Nothing,
    /// Some of the rows, in their short form, with a name or title if they have one.
    Several(Vec<String>),
}

/// Most rows that the error for an ambiguous prefix names.
const SHOWN: i64 = 5;

fn to_match<Id>(
    rows: Vec<(Uuid, String)>,
    id: impl Fn(Uuid) -> Id,
    short: impl Fn(&Id) -> String,
) -> Match<Id> {
    let mut rows: Vec<(Id, String)> = rows.into_iter().map(|(key, text)| (id(key), text)).collect();
    match rows.len() {
        0 => Match::Nothing,
        1 => Match::One(rows.remove(0).0),
        _ => Match::Several(
            rows.iter()
                .map(|(id, text)| format!("{} {text}", short(id)).trim_end().to_owned())
                .collect(),
        ),
    }
}

/// A task by the beginning of its short form.
pub async fn find_task(conn: &mut PgConnection, prefix: &ShortPrefix) -> sqlx::Result<Match<TaskId>> {
    let rows = sqlx::query!(
        "select t.id, x.title
         from tasks t
         join task_texts x on x.task_id = t.id
         where right(replace(t.id::text, '-', ''), 12) ~>=~ $1 and right(replace(t.id::text, '-', ''), 12) ~<~ ($1 || 'g')
         limit $2",
        prefix.as_str(),
        SHOWN,
    )
    .fetch_all(conn)
    .await?;
    let rows = rows.into_iter().map(|row| (row.id, row.title)).collect();
    Ok(to_match(rows, TaskId, TaskId::short))
}

/// A task of a feature by its key; parts that agents split off may share one.
pub async fn find_task_by_key(
    conn: &mut PgConnection,
    feature: FeatureId,
    key: &str,
) -> sqlx::Result<Match<TaskId>> {
    let rows = sqlx::query!(
        "select t.id, x.title
         from tasks t
         join task_texts x on x.task_id = t.id
         where t.feature_id = $1 and x.key = $2
         order by t.id
         limit $3",
        feature.0,
        key,
        SHOWN,
    )
    .fetch_all(conn)
    .await?;
    let rows = rows.into_iter().map(|row| (row.id, row.title)).collect();
    Ok(to_match(rows, TaskId, TaskId::short))
}

/// A run by the beginning of its short form.
pub async fn find_run(conn: &mut PgConnection, prefix: &ShortPrefix) -> sqlx::Result<Match<RunId>> {
    let rows = sqlx::query_scalar!(
        "select id
         from runs
         where right(replace(id::text, '-', ''), 12) ~>=~ $1 and right(replace(id::text, '-', ''), 12) ~<~ ($1 || 'g')
         limit $2",
        prefix.as_str(),
        SHOWN,
    )
    .fetch_all(conn)
    .await?;
    let rows = rows.into_iter().map(|id| (id, String::new())).collect();
    Ok(to_match(rows, RunId, RunId::short))
}

/// A feature by its name, or by the beginning of its short form. A name takes precedence, and the given
/// repository's feature before others. Without a repository, a name that several repositories use is
/// ambiguous.
pub async fn find_feature(
    conn: &mut PgConnection,
    text: &str,
    repo_id: Option<&str>,
) -> sqlx::Result<Match<FeatureId>> {
    let by_name = sqlx::query!(
        "select id, repo_id
         from features
         where name = $1
         order by (repo_id = $3) desc nulls last, id desc
         limit $2",
        text,
        SHOWN,
        repo_id,
    )
    .fetch_all(&mut *conn)
    .await?;
    if let Some(row) = by_name.first()
        && repo_id == Some(row.repo_id.as_str())
    {
        return Ok(Match::One(FeatureId(row.id)));
    }
    let rows: Vec<(Uuid, String)> = if by_name.is_empty() {
        let Ok(prefix) = FeatureId::parse_prefix(text) else {
            return Ok(Match::Nothing);
        };
        let by_id = sqlx::query!(
            "select id, name
             from features
             where right(replace(id::text, '-', ''), 12) ~>=~ $1 and right(replace(id::text, '-', ''), 12) ~<~ ($1 || 'g')
             limit $2",
            prefix.as_str(),
            SHOWN,
        )
        .fetch_all(conn)
        .await?;
        by_id.into_iter().map(|row| (row.id, row.name)).collect()
    } else {
        by_name
            .into_iter()
            .map(|row| {
                (
                    row.id,
                    format!(
                        "in {}",
                        if row.repo_id.is_empty() {
                            "no repository"
                        } else {
                            &row.repo_id
                        }
                    ),
                )
            })
            .collect()
    };
    Ok(to_match(rows, FeatureId, FeatureId::short))
}

/// Names of the newest features.
pub async fn names_of_features(conn: &mut PgConnection, limit: i64) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!("select name from features order by id desc limit $1", limit)
        .fetch_all(conn)
        .await
}

/// Keys of a feature's oldest tasks.
pub async fn keys_of_tasks(
    conn: &mut PgConnection,
    feature: FeatureId,
    limit: i64,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "select x.key
         from tasks t
         join task_texts x on x.task_id = t.id
         where t.feature_id = $1
         order by t.id
         limit $2",
        feature.0,
        limit,
    )
    .fetch_all(conn)
    .await
}

pub async fn newest_runs(conn: &mut PgConnection, limit: i64) -> sqlx::Result<Vec<RunId>> {
    let ids = sqlx::query_scalar!("select id from runs order by id desc limit $1", limit)
        .fetch_all(conn)
        .await?;
    Ok(ids.into_iter().map(RunId).collect())
}
