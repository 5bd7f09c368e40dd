//! Memory of iterations (SPEC 6): failure reports, learnings, knowledge, notes. Learnings and knowledge stay
//! in quarantine until their task is done (SPEC 6.8).

pub mod copies;
pub mod distill;
pub mod exposures;
pub mod import;
pub mod index;
pub mod library;
pub mod postings;
pub mod repo_scan;
pub mod retract;
pub mod similarity;
pub mod upkeep;
pub mod vectors;
pub mod worth;

use std::collections::HashMap;

use ralph_shared::kind::SessionKind;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::recall::lifecycle::Because;
use crate::domain::recall::{Analysed, Kind as EntryKind, Replaced, Statement};
use crate::domain::text::note::NoteKind;
use crate::store::dispatch::earlier::FailureReport;
use crate::store::memory::index::NewDoc;

#[derive(Debug, Clone, Default)]
pub struct Source {
    pub repo_id: String,
    pub feature: Uuid,
    pub task: Uuid,
    pub dispatch: Uuid,
    pub attempt: i32,
}

/// Stores failure reports, one per dispatch; ignores a second one. Each is also an unresolved error of its
/// feature.
pub async fn insert_failure_reports(
    conn: &mut PgConnection,
    reports: &[(Source, FailureReport)],
) -> sqlx::Result<()> {
    if reports.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "with given as (
           select *
           from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int[], $5::bool[], $6::text[], $7::text[], $8::text[],
                       $9::text[], $10::text[], $11::text[])
             as g(dispatch_id, feature_id, task_id, attempt, extracted, category, what_tried, why_failed,
                  relevant_files, error_output, retry_suggestion)
         ), reports as (
           insert into failure_reports
             (dispatch_id, task_id, attempt, extracted, category, what_tried, why_failed, relevant_files, error_output,
              retry_suggestion)
           select dispatch_id, task_id, attempt, extracted, category, what_tried, why_failed, relevant_files,
                  error_output, retry_suggestion
           from given
           on conflict do nothing
           returning dispatch_id
         )
         insert into session_memory (feature_id, task_id, dispatch_id, kind, body)
         select feature_id, task_id, dispatch_id, 'error', why_failed
         from given
         join reports using (dispatch_id)",
        &reports.iter().map(|(s, _)| s.dispatch).collect::<Vec<_>>(),
        &reports.iter().map(|(s, _)| s.feature).collect::<Vec<_>>(),
        &reports.iter().map(|(s, _)| s.task).collect::<Vec<_>>(),
        &reports.iter().map(|(s, _)| s.attempt).collect::<Vec<_>>(),
        &reports.iter().map(|(_, r)| r.extracted).collect::<Vec<_>>(),
        &reports.iter().map(|(_, r)| r.category.into_str()).collect::<Vec<_>>() as &[&str],
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

/// A new learning or knowledge entry.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    pub id: Uuid,
    pub source: Source,
    /// Category of a learning, title of a knowledge entry.
    pub head: String,
    pub tags: Vec<String>,
    /// Files that it is about.
    pub paths: Vec<String>,
    pub body: String,
}

impl Learned {
    /// Bands to find entries that say nearly the same.
    fn bands(&self, title: &str) -> Vec<i64> {
        Statement::of(&format!("{title} {}", self.body)).bands()
    }
}

pub(super) fn json<T: serde::Serialize>(values: &[T]) -> String {
    serde_json::to_string(values).unwrap_or_else(|_| "[]".to_owned())
}

/// Stores learnings in quarantine (SPEC 6.8). Learnings with `words` are released and indexed at once; these
/// are returned in order, to be counted in the index.
pub async fn insert_learnings(
    conn: &mut PgConnection,
    learned: &[Learned],
    words: Vec<Option<Analysed>>,
    replaced: &[Option<Replaced>],
) -> sqlx::Result<Vec<NewDoc>> {
    if learned.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        "insert into learnings
           (id, repo_id, task_id, dispatch_id, category, tags, paths, body, bands, words, released_at, indexed_at, doc_id,
            superseded_by, is_witness)
         select l.id, l.repo_id, l.task_id, l.dispatch_id, l.category,
                array(select jsonb_array_elements_text(l.tags::jsonb)),
                array(select jsonb_array_elements_text(l.paths::jsonb)), l.body,
                array(select jsonb_array_elements_text(l.bands::jsonb)::bigint), l.words,
                case when l.words is not null or l.by is not null then now() end,
                case when l.words is not null then now() end,
                case when l.words is not null then nextval('memory_docs_id_seq') end, l.by, coalesce(l.is_witness, false)
         from unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[],
                     $10::text[], $11::uuid[], $12::bool[])
           as l(id, repo_id, task_id, dispatch_id, category, tags, paths, body, words, bands, by, is_witness)
         returning id, created_at, doc_id",
        &learned.iter().map(|l| l.id).collect::<Vec<_>>(),
        &learned
            .iter()
            .map(|l| l.source.repo_id.clone())
            .collect::<Vec<_>>(),
        &learned.iter().map(|l| l.source.task).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.source.dispatch).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.head.clone()).collect::<Vec<_>>(),
        &learned.iter().map(|l| json(&l.tags)).collect::<Vec<_>>(),
        &learned.iter().map(|l| json(&l.paths)).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.body.clone()).collect::<Vec<_>>(),
        &words
            .iter()
            .map(|words| words.as_ref().map(Analysed::pack))
            .collect::<Vec<_>>() as &[Option<Vec<u8>>],
        &learned.iter().map(|l| json(&l.bands(""))).collect::<Vec<_>>(),
        &replaced.iter().map(|one| one.map(|one| one.by)).collect::<Vec<_>>() as &[Option<Uuid>],
        &replaced.iter().map(|one| one.map(|one| one.is_witness)).collect::<Vec<_>>() as &[Option<bool>],
    )
    .fetch_all(conn)
    .await?;
    let stored: HashMap<Uuid, (OffsetDateTime, Option<i64>)> = rows
        .into_iter()
        .map(|row| (row.id, (row.created_at, row.doc_id)))
        .collect();
    Ok(new_docs(learned, words, &stored))
}

fn new_docs(
    learned: &[Learned],
    words: Vec<Option<Analysed>>,
    stored: &HashMap<Uuid, (OffsetDateTime, Option<i64>)>,
) -> Vec<NewDoc> {
    let docs = learned.iter().zip(words).filter_map(|(learned, words)| {
        let &(created_at, number) = stored.get(&learned.id)?;
        Some(NewDoc {
            number,
            entry: learned.id,
            repo_id: learned.source.repo_id.clone(),
            kind: EntryKind::Learning,
            created_at,
            words: words?,
        })
    });
    docs.collect()
}

/// Stores knowledge in quarantine (SPEC 6.8).
pub async fn insert_knowledge(conn: &mut PgConnection, learned: &[Learned]) -> sqlx::Result<()> {
    if learned.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into knowledge (id, repo_id, feature, task_id, dispatch_id, title, tags, paths, body, bands)
         select l.id, l.repo_id, f.name, l.task_id, l.dispatch_id, l.title,
                array(select jsonb_array_elements_text(l.tags::jsonb)),
                array(select jsonb_array_elements_text(l.paths::jsonb)), l.body,
                array(select jsonb_array_elements_text(l.bands::jsonb)::bigint)
         from unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::text[], $8::text[],
                     $9::text[], $10::text[])
           as l(id, repo_id, feature_id, task_id, dispatch_id, title, tags, paths, body, bands)
         left join features f on f.id = l.feature_id",
        &learned.iter().map(|l| l.id).collect::<Vec<_>>(),
        &learned
            .iter()
            .map(|l| l.source.repo_id.clone())
            .collect::<Vec<_>>(),
        &learned.iter().map(|l| l.source.feature).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.source.task).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.source.dispatch).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.head.clone()).collect::<Vec<_>>(),
        &learned.iter().map(|l| json(&l.tags)).collect::<Vec<_>>(),
        &learned.iter().map(|l| json(&l.paths)).collect::<Vec<_>>(),
        &learned.iter().map(|l| l.body.clone()).collect::<Vec<_>>(),
        &learned
            .iter()
            .map(|l| json(&l.bands(&l.head)))
            .collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A released learning or knowledge entry, to be indexed.
#[derive(Debug, Clone)]
pub struct Released {
    pub id: Uuid,
    pub repo_id: String,
    pub is_knowledge: bool,
    /// Empty for a learning.
    pub title: String,
    pub body: String,
    pub tags: Vec<String>,
    pub paths: Vec<String>,
    pub created_at: OffsetDateTime,
    /// Whether it is compared with others: an agent wrote it, and nobody edited it.
    pub is_compared: bool,
}

/// Repositories with quarantined entries of `tasks`, which are done now. Without any, resolves the tasks'
/// errors, and [`release`] has nothing to do.
pub async fn resolve_or_quarantined(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<String>> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_scalar!(
        r#"with quarantined as materialized (
             select repo_id from learnings where task_id = any($1) and released_at is null and doubted_by is null and pruned_at is null
             union
             select repo_id from knowledge where task_id = any($1) and released_at is null and doubted_by is null and pruned_at is null
           ), errors as (
             update session_memory set resolved_at = now()
             where task_id = any($1) and kind = 'error' and resolved_at is null and not exists (select from quarantined)
           )
           select repo_id as "repo_id!" from quarantined"#,
        tasks,
    )
    .fetch_all(conn)
    .await
}

/// Releases entries of tasks that are done, and resolves their errors; the caller holds their memories.
/// Returns released entries, oldest first.
pub async fn release(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<Released>> {
    sqlx::query_as!(
        Released,
        r#"with errors as (
             update session_memory set resolved_at = now()
             where task_id = any($1) and kind = 'error' and resolved_at is null
           ), released_learnings as (
             update learnings set released_at = now()
             where task_id = any($1) and released_at is null and doubted_by is null and pruned_at is null
             returning id, repo_id, false as is_knowledge, title, body, tags, paths, created_at, bands, origin
           ), released_knowledge as (
             update knowledge set released_at = now()
             where task_id = any($1) and released_at is null and doubted_by is null and pruned_at is null
             returning id, repo_id, true as is_knowledge, title, body, tags, paths, created_at, bands, origin
           )
           select id as "id!", repo_id as "repo_id!", is_knowledge as "is_knowledge!", title as "title!",
                  body as "body!", tags as "tags!", paths as "paths!", created_at as "created_at!",
                  (bands is not null and origin in ('attempt', 'distilled')) as "is_compared!"
           from (select * from released_learnings union all select * from released_knowledge) r
           order by id"#,
        tasks,
    )
    .fetch_all(conn)
    .await
}

/// Hides the oldest quarantined entries of tasks that have more than `room` of them, from whichever attempts.
pub async fn hide_surplus(conn: &mut PgConnection, tasks: &[Uuid], room: &[i64]) -> sqlx::Result<()> {
    sqlx::query!(
        "with surplus as materialized (
           select id
           from (
             select e.id, of.room, row_number() over (partition by e.task_id order by e.id desc) as nth
             from (
               select id, task_id from learnings
               where task_id = any($1) and released_at is null and pruned_at is null
               union all
               select id, task_id from knowledge
               where task_id = any($1) and released_at is null and pruned_at is null
             ) e
             join unnest($1::uuid[], $2::bigint[]) as of(task_id, room) on of.task_id = e.task_id
           ) counted
           where nth > room
         ), learned as (
           update learnings set pruned_at = now(), pruned_because = $3 where id in (select id from surplus)
         )
         update knowledge set pruned_at = now(), pruned_because = $3 where id in (select id from surplus)",
        tasks,
        room,
        Because::Full.into_str(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Done tasks with quarantined learnings or unresolved errors: a person marked them as done, their parts are
/// done, or an earlier release failed. In random order, so that failing ones do not block the others.
pub async fn unreleased_of_done(conn: &mut PgConnection, most: i64) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"select t.id
           from (
             select task_id from learnings where task_id is not null and released_at is null and doubted_by is null and pruned_at is null
             union
             select task_id from knowledge where task_id is not null and released_at is null and doubted_by is null and pruned_at is null
             union
             select task_id from session_memory where kind = 'error' and resolved_at is null
           ) l
           join tasks t on t.id = l.task_id
           where t.state = 'done'
           order by random()
           limit $1"#,
        most,
    )
    .fetch_all(conn)
    .await
}

/// A task's own quarantined entry, which its sessions may see.
#[derive(Debug, Clone)]
pub struct Own {
    pub id: Uuid,
    pub task: Uuid,
    pub is_knowledge: bool,
    pub head: String,
    pub body: String,
    pub created_at: OffsetDateTime,
    pub attempt: Option<i32>,
}

/// The quarantined entries of tasks, newest first.
pub async fn own(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<Own>> {
    sqlx::query_as!(
        Own,
        r#"select id as "id!", task_id as "task!", false as "is_knowledge!", category as "head!", body as "body!",
                  created_at as "created_at!", (select attempt from dispatches d where d.id = dispatch_id) as attempt
           from learnings
           where task_id = any($1) and released_at is null and doubted_by is null and pruned_at is null
           union all
           select id, task_id, true, title, body, created_at, (select attempt from dispatches d where d.id = dispatch_id)
           from knowledge
           where task_id = any($1) and released_at is null and doubted_by is null and pruned_at is null
           order by 1 desc
           limit 200"#,
        tasks,
    )
    .fetch_all(conn)
    .await
}

/// A note for the feature's session memory (SPEC 6.4).
#[derive(Debug, Clone)]
pub struct NewNote {
    pub source: Source,
    pub kind: NoteKind,
    pub body: String,
    pub rationale: Option<String>,
}

pub async fn insert_notes(conn: &mut PgConnection, notes: &[NewNote]) -> sqlx::Result<()> {
    if notes.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into session_memory (feature_id, task_id, dispatch_id, kind, body, rationale)
         select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[])",
        &notes.iter().map(|n| n.source.feature).collect::<Vec<_>>(),
        &notes.iter().map(|n| n.source.task).collect::<Vec<_>>(),
        &notes.iter().map(|n| n.source.dispatch).collect::<Vec<_>>(),
        &notes.iter().map(|n| n.kind.into_str()).collect::<Vec<_>>() as &[&str],
        &notes.iter().map(|n| n.body.clone()).collect::<Vec<_>>(),
        &notes.iter().map(|n| n.rationale.clone()).collect::<Vec<_>>() as &[Option<String>],
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A note in a prompt; an error has its failure report.
#[derive(Debug, Clone)]
pub struct Note {
    pub feature: Uuid,
    pub task: Option<Uuid>,
    pub parent: Option<Uuid>,
    pub task_title: Option<String>,
    pub kind: NoteKind,
    pub body: String,
    pub rationale: Option<String>,
    /// Whether it was resolved when its task was done.
    pub resolved: bool,
    pub iteration: Option<i32>,
    /// Session kind of an error.
    pub phase: Option<SessionKind>,
    /// Whether its task is done, which verifies the note.
    pub verified: bool,
    pub category: Option<String>,
    pub attempted: Option<String>,
    /// Files that its agent named.
    pub files: Option<String>,
    /// Files that its session changed.
    pub files_changed: Vec<String>,
    pub context: Option<String>,
    /// End of an error's session.
    pub ended_at: Option<OffsetDateTime>,
    pub duration_ms: Option<i64>,
}

/// The newest unresolved notes of features: at most 50 facts, `most` decisions, and `most` errors, but at
/// least 100. Also all steps and files that the given tasks noted, and related resolved errors. Oldest first.
pub async fn notes(
    conn: &mut PgConnection,
    features: &[Uuid],
    tasks: &[Uuid],
    most: usize,
) -> sqlx::Result<Vec<Note>> {
    sqlx::query_as!(
        Note,
        r#"with noted as (
             select n.*
             from unnest($1::uuid[]) as q(id)
             cross join (values ('decision', $3), ('error', greatest($3, 100)), ('key_fact', 50)) as k(kind, most)
             cross join lateral (
               select * from session_memory
               where feature_id = q.id and kind = k.kind and resolved_at is null
               order by id desc
               limit k.most
             ) n
             union all
             select n.*
             from unnest($2::uuid[]) as q(id)
             cross join lateral (
               select * from session_memory
               where task_id = q.id and kind in ('step_done', 'step_pending', 'file_modified')
               order by id desc
               limit 300
             ) n
             -- Failures of siblings, of those too that are done by now, count until the parent is (SPEC 6.3); without a parent,
             -- the feature's. Others of the feature may have failed more often since.
             union
             select n.*
             from unnest($2::uuid[]) as q(id)
             join tasks me on me.id = q.id
             join tasks p on p.id = me.parent_id and p.state not in ('done', 'skipped', 'cancelled')
             cross join lateral (
               select m.*
               from tasks s join session_memory m on m.task_id = s.id
               where s.parent_id = me.parent_id and s.id <> me.id and m.kind = 'error'
               order by m.id desc
               limit 100
             ) n
             union
             select n.*
             from (select distinct feature_id from tasks where id = any($2) and parent_id is null) q
             cross join lateral (
               select * from session_memory
               where feature_id = q.feature_id and kind = 'error' and resolved_at is not null
               order by id desc
               limit 100
             ) n
           )
           select n.feature_id as "feature!", n.task_id as task, t.parent_id as "parent?", x.title as "task_title?",
                  n.kind as "kind!: NoteKind", n.body as "body!", n.rationale, n.resolved_at is not null as "resolved!", d.iteration as "iteration?",
                  d.kind as "phase?: SessionKind", coalesce(t.state = 'done', false) as "verified!", r.category as "category?",
                  r.what_tried as "attempted?", r.relevant_files as files, coalesce(d.files_changed, '{}') as "files_changed!",
                  r.error_output as context, d.settled_at as "ended_at?", d.duration_ms as "duration_ms?"
           from noted n
           left join tasks t on t.id = n.task_id
           left join task_texts x on x.task_id = n.task_id and n.kind = 'error'
           left join dispatches d on d.id = n.dispatch_id and n.kind = 'error'
           left join failure_reports r on r.dispatch_id = n.dispatch_id and n.kind = 'error'
           order by n.id"#,
        features,
        tasks,
        i32::try_from(most).unwrap_or(i32::MAX),
    )
    .fetch_all(conn)
    .await
}
