//! What an assignment and its prompt are made of, read for a whole batch of claims in a bounded number of queries.

use std::collections::HashMap;

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::wire::{Change, Landed};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::states::{Kind, Outcome};

/// A task with its feature, as prompts and assignments need them.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct TaskFacts {
    pub task: TaskId,
    pub role: Kind,
    pub feature: FeatureId,
    /// The feature's run.
    pub run: Option<Uuid>,
    pub title: String,
    pub description: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub max_retries: i32,
    pub attempt: i32,
    pub failures: i16,
    /// An attempt of it conflicted.
    pub conflicted: bool,
    pub start_commit: Option<String>,
    pub start_ref: Option<String>,
    pub parent: Option<ParentFacts>,
    pub feature_name: String,
    pub repo_id: String,
    pub repo_address: Option<String>,
    pub base_commit: Option<String>,
    pub branch: Option<String>,
    /// What landed last on that branch.
    pub landed: Option<Landed>,
    /// The folder that it works in.
    pub dir: Option<String>,
    pub feature_tasks: i32,
    pub feature_description: String,
    pub spec: Option<String>,
    pub plan: Option<String>,
}

/// The parent as a prompt shows it.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ParentFacts {
    pub id: TaskId,
    pub title: String,
    pub description: String,
}

/// Reads tasks with their features.
pub async fn tasks(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<TaskFacts>> {
    let rows = sqlx::query!(
        r#"select t.id, t.feature_id, t.role as "role: Kind", x.title, x.description, x.agent, x.model, t.max_retries, t.attempt, t.failures,
                  exists (select 1 from integrations c where c.task_id = t.id and c.state = 'conflict') as "conflicted!",
                  t.start_commit, t.start_ref, t.parent_id, px.title as "parent_title?",
                  px.description as "parent_description?", f.name, f.current_run, f.repo_id, f.repo_address, f.base_commit, f.branch, f.dir,
                  coalesce(l.landed_commit, f.landed_commit) as landed_commit, coalesce(l.task_id, f.landed_task) as landed_task,
                  f.pending + f.blocked + f.done + f.failed + f.cancelled + f.skipped + f.needs_review
                    as "feature_tasks!",
                  ft.description as feature_description, ft.spec, ft.plan
           from tasks t
           join task_texts x on x.task_id = t.id
           join features f on f.id = t.feature_id
           join feature_texts ft on ft.feature_id = f.id
           left join task_texts px on px.task_id = t.parent_id
           left join lateral (
             select i.landed_commit, i.task_id from integrations i
             where i.feature_id = f.id and i.state = 'merged'
             order by i.ended_at desc
             limit 1
           ) l on true
           where t.id = any($1)"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| TaskFacts {
            task: TaskId(row.id),
            role: row.role,
            feature: FeatureId(row.feature_id),
            run: row.current_run,
            title: row.title,
            description: row.description,
            agent: row.agent,
            model: row.model,
            max_retries: row.max_retries,
            attempt: row.attempt,
            failures: row.failures,
            conflicted: row.conflicted,
            start_commit: row.start_commit,
            start_ref: row.start_ref,
            parent: row.parent_id.map(|id| ParentFacts {
                id: TaskId(id),
                title: row.parent_title.unwrap_or_default(),
                description: row.parent_description.unwrap_or_default(),
            }),
            feature_name: row.name,
            repo_id: row.repo_id,
            repo_address: row.repo_address,
            base_commit: row.base_commit,
            branch: row.branch,
            landed: row
                .landed_commit
                .zip(row.landed_task)
                .map(|(commit, task)| Landed {
                    commit,
                    task: TaskId(task),
                }),
            dir: row.dir,
            feature_tasks: row.feature_tasks,
            feature_description: row.feature_description,
            spec: row.spec,
            plan: row.plan,
        })
        .collect())
}

/// What the last work of each of these tasks changed.
pub async fn last_changes(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<(TaskId, Vec<String>)>> {
    let rows = sqlx::query!(
        r#"select distinct on (task_id) task_id, coalesce(files_changed, '{}') as "files!"
           from dispatches
           where task_id = any($1) and state = 'settled' and kind in ('work', 'review')
           order by task_id, id desc"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (TaskId(row.task_id), row.files))
        .collect())
}

/// A resolved blocker, as its dependents are told of it.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Prerequisite {
    pub of: TaskId,
    pub id: TaskId,
    pub title: String,
    pub skipped: bool,
    pub summary: Option<String>,
    /// How many blockers the task has that are resolved.
    pub in_all: i64,
}

/// The blockers of tasks with the journal of the attempt that finished them, at most 20 a task.
pub async fn prerequisites(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Prerequisite>> {
    let rows = sqlx::query!(
        r#"select q.id as "of!", b.id as "id!", b.title as "title!", b.skipped as "skipped!", b.journal,
                  b.in_all as "in_all!"
           from unnest($1::uuid[]) as q(id)
           cross join lateral (
             select t.id, x.title, t.state = 'skipped' as skipped, last.journal, count(*) over () as in_all
             from dependencies d
             join tasks t on t.id = d.blocker_id
             join task_texts x on x.task_id = t.id
             left join lateral (
               select journal from dispatches where task_id = t.id and outcome = 'done' order by id desc limit 1
             ) last on true
             where d.task_id = q.id and t.state in ('done', 'skipped')
             order by t.id
             limit 20
           ) b"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Prerequisite {
            of: TaskId(row.of),
            id: TaskId(row.id),
            title: row.title,
            skipped: row.skipped,
            summary: row.journal,
            in_all: row.in_all,
        })
        .collect())
}

/// The last conflict of a task.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ConflictFacts {
    pub task: TaskId,
    /// The commit that could not be brought onto the branch.
    pub commit: String,
    pub paths: Vec<String>,
    pub others: Vec<OtherSide>,
}

/// A task that landed what the conflict is with.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct OtherSide {
    pub id: TaskId,
    pub title: String,
    pub description: String,
    pub journal: Option<String>,
}

/// The last conflicts of tasks, with those who landed the other side.
pub async fn conflicts(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<ConflictFacts>> {
    let rows = sqlx::query!(
        r#"select i.task_id as "task_id!", i.source_commit as "source_commit!", i.conflict_paths as "conflict_paths!",
                  o.id as "other?", x.title as "title?", x.description as "description?", last.journal as "journal?"
           from unnest($1::uuid[]) as q(id)
           cross join lateral (
             select * from integrations
             where task_id = q.id and state = 'conflict'
             order by ended_at desc
             limit 1
           ) i
           left join tasks o on o.feature_id = i.feature_id and right(replace(o.id::text, '-', ''), 12) = any(i.collided)
           left join task_texts x on x.task_id = o.id
           left join lateral (
             select journal from dispatches where task_id = o.id and outcome = 'done' order by id desc limit 1
           ) last on true
           order by i.task_id, array_position(i.collided, right(replace(o.id::text, '-', ''), 12))"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    let mut found: Vec<ConflictFacts> = Vec::new();
    for row in rows {
        let other = row.other.map(|id| OtherSide {
            id: TaskId(id),
            title: row.title.unwrap_or_default(),
            description: row.description.unwrap_or_default(),
            journal: row.journal,
        });
        match found.last_mut().filter(|last| last.task.0 == row.task_id) {
            Some(last) => last.others.extend(other),
            None => found.push(ConflictFacts {
                task: TaskId(row.task_id),
                commit: row.source_commit,
                paths: row.conflict_paths,
                others: other.into_iter().collect(),
            }),
        }
    }
    Ok(found)
}

/// What tasks that are to be verified changed, as the attempts that ended at the commit to judge told it.
pub async fn changes(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<HashMap<TaskId, Change>> {
    let rows = sqlx::query!(
        r#"select t.id, last.change::text as "change!"
           from tasks t
           cross join lateral (
             select change from dispatches
             where task_id = t.id and commit = t.start_commit and change is not null
             order by id desc
             limit 1
           ) last
           where t.id = any($1)"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    // What another version wrote and this one can't read is done without.
    let read = |text: &str| serde_json::from_str(text).ok();
    let changes = rows
        .into_iter()
        .filter_map(|row| Some((TaskId(row.id), read(&row.change)?)));
    Ok(changes.collect())
}

/// An earlier dispatch of a task, as its next prompt tells of it.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Earlier {
    pub task: TaskId,
    pub kind: Kind,
    pub attempt: i32,
    pub outcome: Outcome,
    pub reason: Option<String>,
    pub feedback: Option<String>,
    pub model: Option<String>,
    pub duration_ms: Option<i64>,
    pub pushed_ref: Option<String>,
    /// Refs beside that one, of what the agent committed elsewhere.
    pub stray_refs: Vec<String>,
    pub difficulty: Option<String>,
    pub files_changed: Vec<String>,
    pub report: Option<FailureReport>,
    /// How many attempts at the task have ended, those before the last 20 dispatches included.
    pub attempts_in_all: i64,
}

/// A failure report (SPEC 4.1, 4.3).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FailureReport {
    pub extracted: bool,
    pub category: String,
    pub what_tried: String,
    pub why_failed: String,
    pub relevant_files: Option<String>,
    pub error_output: Option<String>,
    pub retry_suggestion: Option<String>,
}

/// The last 20 ended dispatches of each task, oldest first.
pub async fn earlier(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Earlier>> {
    let rows = sqlx::query!(
        r#"select d.task_id as "task_id!", d.kind as "kind!: Kind", d.attempt as "attempt!",
                  d.outcome as "outcome!: Outcome", d.reason, d.feedback, d.model, d.duration_ms, d.pushed_ref, d.difficulty,
                  jsonb_path_query_array(d.strays, '$[*].pushed_ref ? (@ != null)')::text as stray_refs,
                  coalesce(d.files_changed, '{}') as "files_changed!", r.extracted as "extracted?",
                  r.category as "category?", r.what_tried as "what_tried?", r.why_failed as "why_failed?",
                  r.relevant_files, r.error_output, r.retry_suggestion, a.attempts as "attempts!"
           from unnest($1::uuid[]) as q(id)
           cross join lateral (
             select count(distinct attempt) as attempts
             from dispatches
             where task_id = q.id and outcome <> 'door' and kind not in ('verify', 'integrate')
           ) a
           cross join lateral (
             select * from dispatches
             where task_id = q.id and outcome is not null
             order by id desc
             limit 20
           ) d
           left join failure_reports r on r.dispatch_id = d.id
           order by d.id"#,
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
            reason: row.reason,
            feedback: row.feedback,
            model: row.model,
            duration_ms: row.duration_ms,
            pushed_ref: row.pushed_ref,
            stray_refs: row
                .stray_refs
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
            difficulty: row.difficulty,
            files_changed: row.files_changed,
            attempts_in_all: row.attempts,
            report: row.what_tried.map(|what_tried| FailureReport {
                extracted: row.extracted.unwrap_or_default(),
                category: row.category.unwrap_or_default(),
                what_tried,
                why_failed: row.why_failed.unwrap_or_default(),
                relevant_files: row.relevant_files,
                error_output: row.error_output,
                retry_suggestion: row.retry_suggestion,
            }),
        })
        .collect())
}

/// A journal entry of the same feature.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct JournalEntry {
    pub dispatch: Uuid,
    pub feature: FeatureId,
    pub run: Uuid,
    pub task: TaskId,
    pub task_title: String,
    pub kind: Kind,
    /// Number within its run; only work has one.
    pub iteration: Option<i32>,
    pub outcome: Outcome,
    pub model: Option<String>,
    pub duration_ms: Option<i64>,
    pub cost_usd: Option<f64>,
    pub files_changed: Vec<String>,
    pub journal: String,
    /// What a person said when it was interrupted.
    pub feedback: Option<String>,
    /// Whether its verification or integration sent the task back.
    pub sent_back: bool,
    /// What it tried and why that failed.
    pub failure: Option<(String, String)>,
    /// Tasks that it is near to: a blocker's of theirs or of an ancestor's, or an ancestor's.
    pub near: Vec<Uuid>,
}

/// The newest `n` journal entries of each feature, as many of those near to each task, and the `named` ones of whatever
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
             select l.of, d.blocker_id from lineage l join dependencies d on d.task_id = l.id
           ), near_entries as (
             select q.id as of, e.id
             from unnest($4::uuid[]) as q(id)
             cross join lateral (
               select d.id
               from near
               cross join lateral (
                 select id, settled_at
                 from dispatches
                 where task_id = near.id and journal is not null
                 order by settled_at desc, id desc
                 limit $2
               ) d
               where near.of = q.id
               order by d.settled_at desc, d.id desc
               limit $2
             ) e
           ), entries as (
             select e.id
             from unnest($1::uuid[]) as q(id)
             cross join lateral (
               select id from dispatches
               where feature_id = q.id and journal is not null
               order by settled_at desc, id desc
               limit $2
             ) e
             union
             select id from near_entries
             union
             select d.id
             from unnest($3::uuid[]) as q(named)
             cross join lateral (select id, journal from dispatches where id = q.named limit 1) d
             where d.journal is not null
           )
           select d.id as "id!", d.feature_id as "feature_id!", d.run_id as "run_id!", d.task_id as "task_id!", x.title,
                  d.kind as "kind!: Kind", d.iteration, d.outcome as "outcome!: Outcome", d.model, d.duration_ms, d.cost_usd,
                  coalesce(d.files_changed, '{}') as "files_changed!", d.journal as "journal!", d.feedback,
                  r.what_tried as "what_tried?", r.why_failed as "why_failed?",
                  array(select of from near_entries n where n.id = d.id) as "near!",
                  exists (
                    select from dispatches v
                    where v.task_id = d.task_id and v.attempt = d.attempt and v.kind in ('verify', 'integrate')
                      and v.outcome in ('failed', 'conflict', 'no_sigil')
                  ) as "sent_back!"
           from entries
           cross join lateral (select * from dispatches where id = entries.id limit 1) d
           cross join lateral (select title from task_texts where task_id = d.task_id limit 1) x
           left join lateral (select * from failure_reports where dispatch_id = d.id limit 1) r on true
           order by d.id"#,
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
            feature: FeatureId(row.feature_id),
            run: row.run_id,
            task: TaskId(row.task_id),
            task_title: row.title,
            kind: row.kind,
            iteration: row.iteration,
            outcome: row.outcome,
            model: row.model,
            duration_ms: row.duration_ms,
            cost_usd: row.cost_usd,
            files_changed: row.files_changed,
            journal: row.journal,
            feedback: row.feedback,
            sent_back: row.sent_back,
            failure: row.what_tried.zip(row.why_failed),
            near: row.near,
        })
        .collect())
}

/// What the choice of a model and an agent depends on (SPEC 7.1, 8).
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ModelFacts {
    pub pool: String,
    /// The agent that the task names, or its run.
    pub agent: Option<String>,
    /// Failures of the task in a row.
    pub failures: i16,
    pub strategy: String,
    pub run_model: Option<String>,
    pub task_model: Option<String>,
    pub recent: u32,
    pub recent_done: u32,
    /// Attempts done in a row that were rated trivial or easy.
    pub easy_streak: u32,
    pub iterations: i32,
    pub plan_given: bool,
}

/// Reads what the choice of models depends on, for tasks of running features.
pub async fn models(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<(TaskId, ModelFacts)>> {
    let rows = sqlx::query!(
        r#"with fs as (
             select distinct feature_id from tasks where id = any($1)
           ), recent as materialized (
             select fs.feature_id, count(*)::int as n, (count(*) filter (where last.outcome = 'done'))::int as done,
                    array_agg(last.outcome = 'done' and coalesce(last.difficulty in ('trivial', 'easy'), false)
                              order by last.settled_at desc, last.id desc) as easy
             from fs
             cross join lateral (
               select id, settled_at, outcome, difficulty from dispatches
               where feature_id = fs.feature_id and journal is not null and kind = 'work'
               order by settled_at desc, id desc
               limit 10
             ) last
             group by fs.feature_id
           )
           select t.id, t.failures, x.pool, coalesce(nullif(x.agent, ''), nullif(r.agent, '')) as agent, r.model_strategy, r.model as run_model, x.model as task_model, r.iterations,
                  coalesce(recent.n, 0) as "recent!", coalesce(recent.done, 0) as "recent_done!",
                  coalesce(recent.easy, '{}') as "easy!",
                  ft.plan is not null as "plan_given!"
           from tasks t
           join task_texts x on x.task_id = t.id
           join features f on f.id = t.feature_id
           join feature_texts ft on ft.feature_id = f.id
           join runs r on r.id = f.current_run
           left join recent on recent.feature_id = t.feature_id
           where t.id = any($1)"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let facts = ModelFacts {
                pool: row.pool,
                agent: row.agent,
                failures: row.failures,
                strategy: row.model_strategy,
                run_model: row.run_model,
                task_model: row.task_model,
                recent: u32::try_from(row.recent).unwrap_or(0),
                recent_done: u32::try_from(row.recent_done).unwrap_or(0),
                easy_streak: row.easy.iter().take_while(|easy| **easy).map(|_| 1).sum(),
                iterations: row.iterations,
                plan_given: row.plan_given,
            };
            (TaskId(row.id), facts)
        })
        .collect())
}
