//! Earlier attempts at a task, and the journal of its feature.

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::{Difficulty, ErrorCategory};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::states::Outcome;

/// An earlier dispatch of a task, for its next prompt.
#[derive(Debug, Clone)]
pub struct Earlier {
    pub task: TaskId,
    pub kind: SessionKind,
    pub attempt: i32,
    pub outcome: Outcome,
    /// The signature that recognises the same failure again.
    pub failure_signature: Option<String>,
    pub reason: Option<String>,
    pub feedback: Option<String>,
    pub model: Option<String>,
    pub duration_ms: Option<i64>,
    pub ended_at: Option<OffsetDateTime>,
    pub pushed_ref: Option<String>,
    /// Refs of the agent's stray commits.
    pub stray_refs: Vec<String>,
    pub difficulty: Option<Difficulty>,
    pub files_changed: Vec<String>,
    pub report: Option<FailureReport>,
    /// Number of all ended attempts at the task, not only of those in the last 20 dispatches.
    pub attempts_in_all: i64,
}

/// A failure report (SPEC 4.1, 4.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureReport {
    pub extracted: bool,
    pub category: ErrorCategory,
    pub what_tried: String,
    pub why_failed: String,
    pub relevant_files: Option<String>,
    pub error_output: Option<String>,
    pub retry_suggestion: Option<String>,
}

/// The last 20 ended dispatches of each task, oldest first.
pub async fn earlier(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Earlier>> {
    let rows = sqlx::query!(
        r#"select d.task_id as "task_id!", d.kind as "kind!: SessionKind", d.attempt as "attempt!",
                  d.outcome as "outcome!: Outcome", d.failure_signature, d.reason, d.feedback, d.model, d.duration_ms, d.settled_at, d.pushed_ref, d.difficulty,
                  jsonb_path_query_array(d.strays, '$[*].pushed_ref ? (@ != null)')::text as stray_refs,
                  coalesce(d.files_changed, '{}') as "files_changed!", r.extracted as "extracted?",
                  r.category as "category?", r.what_tried as "what_tried?", r.why_failed as "why_failed?",
                  r.relevant_files, r.error_output, r.retry_suggestion, a.attempts as "attempts!"
           from unnest($1::uuid[]) as q(id)
           cross join lateral (
             select count(distinct attempt) as attempts
             from dispatches
             where task_id = q.id and outcome <> 'door' and kind not in ('verify', 'integrate', 'check')
           ) a
           cross join lateral (
             select * from dispatches
             where task_id = q.id and outcome is not null
             order by claimed_at desc, id desc
             limit 20
           ) d
           left join failure_reports r on r.dispatch_id = d.id
           order by d.claimed_at, d.id"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Earlier {
            task: TaskId(row.task_id),
            kind: row.kind,
            attempt: row.attempt,
            outcome: row.outcome,
            failure_signature: row.failure_signature,
            reason: row.reason,
            feedback: row.feedback,
            model: row.model,
            duration_ms: known(row.duration_ms),
            ended_at: row.settled_at,
            pushed_ref: row.pushed_ref,
            stray_refs: row
                .stray_refs
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
            difficulty: row.difficulty.as_deref().and_then(Difficulty::from_word),
            files_changed: row.files_changed,
            attempts_in_all: row.attempts,
            report: row.what_tried.map(|what_tried| FailureReport {
                extracted: row.extracted.unwrap_or_default(),
                category: ErrorCategory::from_word(&row.category.unwrap_or_default()),
                what_tried,
                why_failed: row.why_failed.unwrap_or_default(),
                relevant_files: row.relevant_files,
                error_output: row.error_output,
                retry_suggestion: row.retry_suggestion,
            }),
        })
        .collect())
}

#[derive(Debug, Clone)]
pub struct JournalEntry {
    pub dispatch: Uuid,
    pub claimed_at: OffsetDateTime,
    pub feature: FeatureId,
    pub run: Uuid,
    pub task: TaskId,
    pub task_title: String,
    pub kind: SessionKind,
    /// Number within its run, for work.
    pub iteration: Option<i32>,
    pub outcome: Outcome,
    pub model: Option<String>,
    pub duration_ms: Option<i64>,
    pub cost_usd: Option<f64>,
    pub files_changed: Vec<String>,
    pub journal: String,
    /// Whether it quotes revoked entries; then `journal` is empty.
    pub is_doubted: bool,
    /// Feedback that a person gave with an interrupt.
    pub feedback: Option<String>,
    /// Whether its task is done, which verifies the entry.
    pub verified: bool,
    /// Whether its verification or integration sent the task back.
    pub sent_back: bool,
    /// The approach that failed, and the cause.
    pub failure: Option<(String, String)>,
    /// Near relatives of its task: tasks that it or an ancestor blocks, and its descendants.
    pub near: Vec<Uuid>,
}

/// The newest `n` journal entries of each feature, `n` entries near each task, and the `named` entries of any
/// feature. Oldest first.
pub async fn journal(
    conn: &mut PgConnection,
    features: &[Uuid],
    tasks: &[Uuid],
    n: i64,
    named: &[Uuid],
) -> sqlx::Result<Vec<JournalEntry>> {
    let rows = sqlx::query!(
        r#"with recursive lineage as (
             select id as of, id, parent_id from tasks where id = any($4)
             union
             select l.of, t.id, t.parent_id from lineage l join tasks t on t.id = l.parent_id
           ), near as (
             select of, id from lineage where id <> of
             union
             select l.of, d.blocker_id
             from lineage l
             cross join lateral (select blocker_id from dependencies where task_id = l.id order by blocker_id) d
           ), near_entries as (
             select of, id
             from (
               select near.of, d.id,
                      row_number() over (partition by near.of order by d.settled_at desc, d.id desc) as nth
               from near
               cross join lateral (
                 select id, settled_at
                 from dispatches
                 where task_id = near.id and journal is not null
                 order by settled_at desc, id desc
                 limit $2
               ) d
             ) newest
             where nth <= $2
           ), entries as (
             select id, coalesce(array_agg(of) filter (where of is not null), '{}') as near
             from (
               select e.id, null::uuid as of
               from unnest($1::uuid[]) as q(id)
               cross join lateral (
                 select id from dispatches
                 where feature_id = q.id and journal is not null
                 order by settled_at desc, id desc
                 limit $2
               ) e
               union all
               select id, of from near_entries
               union all
               select d.id, null
               from unnest($3::uuid[]) as q(named)
               cross join lateral (select id, journal from dispatches where id = q.named limit 1) d
               where d.journal is not null
             ) found
             group by id
           )
           select d.id as "id!", d.claimed_at as "claimed_at!", d.feature_id as "feature_id!", d.run_id as "run_id!",
                  d.task_id as "task_id!", x.title,
                  d.kind as "kind!: SessionKind", d.iteration, d.outcome as "outcome!: Outcome", d.model, d.duration_ms, d.cost_usd,
                  coalesce(d.files_changed, '{}') as "files_changed!", d.journal as "journal!", d.journal_doubted_by is not null as "is_doubted!",
                  d.feedback,
                  r.what_tried as "what_tried?", r.why_failed as "why_failed?", entries.near as "near!",
                  s.verified as "verified!",
                  -- With `exists` a plan may gather these from all dispatches that ever were.
                  coalesce((
                    select true from dispatches v
                    where v.task_id = d.task_id and v.attempt = d.attempt and v.kind in ('verify', 'integrate')
                      and v.outcome in ('failed', 'conflict')
                    limit 1
                  ), false) as "sent_back!"
           from entries
           cross join lateral (select * from dispatches where id = entries.id limit 1) d
           cross join lateral (select title from task_texts where task_id = d.task_id limit 1) x
           cross join lateral (select state = 'done' as verified from tasks where id = d.task_id limit 1) s
           left join lateral (select * from failure_reports where dispatch_id = d.id limit 1) r on true
           order by d.claimed_at, d.id"#,
        features,
        n,
        named,
        tasks,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| JournalEntry {
            dispatch: row.id,
            claimed_at: row.claimed_at,
            feature: FeatureId(row.feature_id),
            run: row.run_id,
            task: TaskId(row.task_id),
            task_title: row.title,
            kind: row.kind,
            iteration: row.iteration,
            outcome: row.outcome,
            model: row.model,
            duration_ms: known(row.duration_ms),
            cost_usd: row.cost_usd,
            files_changed: row.files_changed,
            journal: if row.is_doubted {
                String::new()
            } else {
                row.journal
            },
            is_doubted: row.is_doubted,
            feedback: row.feedback,
            verified: row.verified,
            sent_back: row.sent_back,
            failure: row.what_tried.zip(row.why_failed),
            near: row.near,
        })
        .collect())
}

/// The duration of a dispatch; 0 in a row means unknown.
pub(in crate::store) fn known(duration_ms: Option<i64>) -> Option<i64> {
    duration_ms.filter(|ms| *ms > 0)
}
