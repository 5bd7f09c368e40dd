//! What iterations leave for later ones (SPEC 6): failure reports, learnings, knowledge, notes.

use sqlx::PgConnection;
use uuid::Uuid;

use super::context::FailureReport;

/// Where something was learned.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Source {
    pub repo_id: String,
    pub feature: Uuid,
    pub task: Uuid,
    pub dispatch: Uuid,
    pub attempt: i32,
}

/// Stores failure reports, one a dispatch; a second one changes nothing.
pub async fn insert_failure_reports(
    conn: &mut PgConnection,
    reports: &[(Source, FailureReport)],
) -> sqlx::Result<()> {
    if reports.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into failure_reports
           (dispatch_id, task_id, attempt, extracted, category, what_tried, why_failed, relevant_files, error_output,
            retry_suggestion)
         select * from unnest($1::uuid[], $2::uuid[], $3::int[], $4::bool[], $5::text[], $6::text[], $7::text[],
                              $8::text[], $9::text[], $10::text[])
         on conflict do nothing",
        &reports.iter().map(|(s, _)| s.dispatch).collect::<Vec<_>>(),
        &reports.iter().map(|(s, _)| s.task).collect::<Vec<_>>(),
        &reports.iter().map(|(s, _)| s.attempt).collect::<Vec<_>>(),
        &reports.iter().map(|(_, r)| r.extracted).collect::<Vec<_>>(),
        &reports.iter().map(|(_, r)| r.category.clone()).collect::<Vec<_>>(),
        &reports.iter().map(|(_, r)| r.what_tried.clone()).collect::<Vec<_>>(),
        &reports.iter().map(|(_, r)| r.why_failed.clone()).collect::<Vec<_>>(),
        &reports.iter().map(|(_, r)| r.relevant_files.clone()).collect::<Vec<_>>() as &[Option<String>],
        &reports.iter().map(|(_, r)| r.error_output.clone()).collect::<Vec<_>>() as &[Option<String>],
        &reports.iter().map(|(_, r)| r.retry_suggestion.clone()).collect::<Vec<_>>() as &[Option<String>],
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Something learned: category or title, tags, body.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Learned {
    pub source: Source,
    pub head: String,
    pub tags: Vec<String>,
    pub body: String,
}

fn tags(learned: &[Learned]) -> Vec<String> {
    learned
        .iter()
        .map(|l| serde_json::to_string(&l.tags).unwrap_or_else(|_| "[]".to_owned()))
        .collect()
}

/// Stores learnings in quarantine (SPEC 6.8).
pub async fn insert_learnings(conn: &mut PgConnection, learned: &[Learned]) -> sqlx::Result<()> {
    if learned.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into learnings (id, repo_id, task_id, dispatch_id, category, tags, body)
         select l.id, l.repo_id, l.task_id, l.dispatch_id, l.category,
                array(select jsonb_array_elements_text(l.tags::jsonb)), l.body
         from unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[])
           as l(id, repo_id, task_id, dispatch_id, category, tags, body)",
        &learned.iter().map(|_| Uuid::now_v7()).collect::<Vec<_>>(),
        &learned
            .iter()
            .map(|l| l.source.repo_id.clone())
            .collect::<Vec<_>>(),
        &learned.iter().map(|l| l.source.task).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.source.dispatch).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.head.clone()).collect::<Vec<_>>(),
        &tags(learned),
        &learned.iter().map(|l| l.body.clone()).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores knowledge in quarantine (SPEC 6.8).
pub async fn insert_knowledge(conn: &mut PgConnection, learned: &[Learned]) -> sqlx::Result<()> {
    if learned.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into knowledge (id, repo_id, task_id, dispatch_id, title, tags, body)
         select l.id, l.repo_id, l.task_id, l.dispatch_id, l.title,
                array(select jsonb_array_elements_text(l.tags::jsonb)), l.body
         from unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[])
           as l(id, repo_id, task_id, dispatch_id, title, tags, body)",
        &learned.iter().map(|_| Uuid::now_v7()).collect::<Vec<_>>(),
        &learned
            .iter()
            .map(|l| l.source.repo_id.clone())
            .collect::<Vec<_>>(),
        &learned.iter().map(|l| l.source.task).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.source.dispatch).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.head.clone()).collect::<Vec<_>>(),
        &tags(learned),
        &learned.iter().map(|l| l.body.clone()).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Releases what tasks learned, once they are done.
pub async fn release(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "with learned as (
           update learnings set released_at = now() where task_id = any($1) and released_at is null
         )
         update knowledge set released_at = now() where task_id = any($1) and released_at is null",
        tasks,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A note for the feature's session memory (SPEC 6.4).
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Noted {
    pub source: Source,
    pub kind: String,
    pub body: String,
    pub rationale: Option<String>,
}

/// Stores notes.
pub async fn insert_notes(conn: &mut PgConnection, notes: &[Noted]) -> sqlx::Result<()> {
    if notes.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into session_memory (feature_id, task_id, dispatch_id, kind, body, rationale)
         select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[])",
        &notes.iter().map(|n| n.source.feature).collect::<Vec<_>>(),
        &notes.iter().map(|n| n.source.task).collect::<Vec<_>>(),
        &notes.iter().map(|n| n.source.dispatch).collect::<Vec<_>>(),
        &notes.iter().map(|n| n.kind.clone()).collect::<Vec<_>>(),
        &notes.iter().map(|n| n.body.clone()).collect::<Vec<_>>(),
        &notes.iter().map(|n| n.rationale.clone()).collect::<Vec<_>>() as &[Option<String>],
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A note as a prompt tells of it.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Note {
    pub feature: Uuid,
    pub task: Option<Uuid>,
    pub kind: String,
    pub body: String,
    pub rationale: Option<String>,
}

/// The newest 200 unresolved notes of each feature, oldest first.
pub async fn notes(conn: &mut PgConnection, features: &[Uuid]) -> sqlx::Result<Vec<Note>> {
    let rows = sqlx::query!(
        r#"select n.feature_id as "feature_id!", n.task_id, n.kind as "kind!", n.body as "body!", n.rationale
           from unnest($1::uuid[]) as q(id)
           cross join lateral (
             select * from session_memory
             where feature_id = q.id and resolved_at is null
             order by id desc
             limit 200
           ) n
           order by n.id"#,
        features,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Note {
            feature: row.feature_id,
            task: row.task_id,
            kind: row.kind,
            body: row.body,
            rationale: row.rationale,
        })
        .collect())
}
