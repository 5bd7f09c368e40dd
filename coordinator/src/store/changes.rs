//! The log of changes and their actors: the table `changes`.

use ralph_shared::ids::FeatureId;
use sqlx::PgConnection;
use uuid::Uuid;

use super::view::LogEntry;

/// The object of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object {
    pub kind: String,
    /// Of a task: `FEATURE/KEY`.
    pub name: String,
    pub feature: Option<Uuid>,
}

pub async fn object(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<Object>> {
    sqlx::query_as!(
        Object,
        r#"select 'feature' as "kind!", name as "name!", id as feature from features where id = $1
           union all
           select 'task', f.name || '/' || x.key, f.id
           from tasks t
           join task_texts x on x.task_id = t.id
           join features f on f.id = t.feature_id
           where t.id = $1"#,
        id,
    )
    .fetch_optional(conn)
    .await
}

/// Records a change in the log and in the table. `actor` is the name of a token, `schedule` or `hook NAME`;
/// `why` holds the given values.
pub async fn note(
    conn: &mut PgConnection,
    actor: &str,
    verb: &str,
    object: &Object,
    why: Option<&str>,
) -> sqlx::Result<()> {
    // The log first, since it cannot fail.
    tracing::info!(actor, verb, kind = object.kind, name = object.name, "changed");
    sqlx::query!(
        "insert into changes (actor, verb, kind, name, feature_id, why) values ($1, $2, $3, $4, $5, $6)",
        actor,
        verb,
        object.kind,
        object.name,
        object.feature,
        why,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The newest changes of a feature and its tasks, or of everything; oldest first.
pub async fn list(
    conn: &mut PgConnection,
    feature: Option<FeatureId>,
    limit: i64,
) -> sqlx::Result<Vec<LogEntry>> {
    let mut rows = sqlx::query_as!(
        LogEntry,
        r#"select at, actor, concat_ws(' ', verb, nullif(kind, case when $1::uuid is null then '' else 'feature' end),
                                       case when $1::uuid is null or kind <> 'feature' then nullif(name, '') end) as "what!", why
           from changes
           where $1::uuid is null or feature_id = $1
           order by id desc
           limit $2"#,
        feature.map(|feature| feature.0),
        limit,
    )
    .fetch_all(conn)
    .await?;
    rows.reverse();
    Ok(rows)
}
