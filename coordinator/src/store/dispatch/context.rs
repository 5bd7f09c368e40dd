//! Facts for assignments and prompts, read for a whole batch of claims in a bounded number of queries.

use std::collections::HashMap;

use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::sigil::Difficulty;
use ralph_shared::wire::{Change, Landed};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::budget::Usual;
use crate::domain::routing::strategy::Strategy;
use crate::domain::run::microusd;

/// A task with its feature, for prompts and assignments.
#[derive(Debug, Clone)]
pub struct TaskFacts {
    pub task: TaskId,
    pub role: SessionKind,
    pub feature: FeatureId,
    pub run: Option<Uuid>,
    pub title: String,
    pub description: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub max_retries: i32,
    pub attempt: i32,
    pub verify: bool,
    pub failures: i16,
    /// Whether one of its attempts conflicted. For parts see [`conflicted_above`].
    pub conflicted: bool,
    pub start_commit: Option<String>,
    pub start_ref: Option<String>,
    pub parent: Option<ParentFacts>,
    pub feature_name: String,
    pub repo_id: String,
    pub repo_address: Option<String>,
    pub base_commit: Option<String>,
    pub branch: Option<String>,
    /// The last landing on that branch.
    pub landed: Option<Landed>,
    /// The folder that its sessions work in.
    pub dir: Option<String>,
    pub feature_tasks: i32,
    pub feature_description: String,
    pub spec: Option<String>,
    pub plan: Option<String>,
}

#[derive(Debug, Clone)]
pub struct ParentFacts {
    pub id: TaskId,
    pub title: String,
    pub description: String,
}

pub async fn tasks(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<TaskFacts>> {
    let rows = sqlx::query!(
        r#"select t.id, t.feature_id, t.role as "role: SessionKind", x.title, x.description, x.agent, x.model, t.max_retries, t.attempt, t.verify, t.failures,
                  exists (select 1 from integrations c where c.task_id = t.id and c.state = 'conflict') as "conflicted!",
                  t.start_commit, t.start_ref, t.parent_id, px.title as "parent_title?",
                  px.description as "parent_description?", f.name, f.current_run, f.repo_id, f.repo_address, f.base_commit, f.branch, f.dir,
                  -- What a deleted task landed may be the last of all.
                  case when f.landed_at > l.ended_at then f.landed_commit else coalesce(l.landed_commit, f.landed_commit) end
                    as landed_commit,
                  case when f.landed_at > l.ended_at then f.landed_task else coalesce(l.task_id, f.landed_task) end as landed_task,
                  f.pending + f.blocked + f.done + f.failed + f.cancelled + f.skipped + f.needs_review
                    as "feature_tasks!",
                  ft.description as feature_description, ft.spec, ft.plan
           from tasks t
           join task_texts x on x.task_id = t.id
           join features f on f.id = t.feature_id
           join feature_texts ft on ft.feature_id = f.id
           left join task_texts px on px.task_id = t.parent_id
           left join lateral (
             select i.landed_commit, i.task_id, i.ended_at from integrations i
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
            verify: row.verify,
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

/// The `parts` with an ancestor that had a conflicting attempt.
pub async fn conflicted_above(conn: &mut PgConnection, parts: &[Uuid]) -> sqlx::Result<Vec<TaskId>> {
    let ids = sqlx::query_scalar!(
        r#"with recursive line as (
             select id, parent_id as above from tasks where id = any($1) and parent_id is not null
             union
             select line.id, t.parent_id from line join tasks t on t.id = line.above where t.parent_id is not null
           )
           select distinct line.id as "id!"
           from line
           cross join lateral (
             select true as is_one from integrations c where c.task_id = line.above and c.state = 'conflict' limit 1
           ) conflict"#,
        parts,
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(TaskId).collect())
}

/// The files that the last work on each of these tasks changed.
pub async fn last_changes(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<(TaskId, Vec<String>)>> {
    let rows = sqlx::query!(
        r#"select distinct on (task_id) task_id, coalesce(files_changed, '{}') as "files!"
           from dispatches
           where task_id = any($1) and state = 'settled' and kind in ('work', 'review')
           order by task_id, claimed_at desc, id desc"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (TaskId(row.task_id), row.files))
        .collect())
}

/// Another task of the feature, for a prompt.
#[derive(Debug, Clone)]
pub struct Neighbour {
    pub feature: Uuid,
    /// `None` for a task that is under way or waits for a session.
    pub waits_for: Option<Uuid>,
    pub id: TaskId,
    pub title: String,
    pub is_running: bool,
    /// Paths that it is declared to change.
    pub paths: Vec<String>,
}

/// Tasks that wait for `tasks`, then tasks of `features` that are under way or come next, at most `most` of
/// each.
pub async fn neighbours(
    conn: &mut PgConnection,
    features: &[Uuid],
    tasks: &[Uuid],
    most: i64,
) -> sqlx::Result<Vec<Neighbour>> {
    sqlx::query_as!(
        Neighbour,
        r#"with near as (
             select t.feature_id, q.id as waits_for, d.task_id as id, false as is_running, 1 as place
             from unnest($2::uuid[]) as q(id)
             join tasks t on t.id = q.id
             cross join lateral (
               select task_id from dependencies where blocker_id = q.id order by task_id limit $3
             ) d
             union all
             select q.id, null, d.task_id, true, 2
             from unnest($1::uuid[]) as q(id)
             cross join lateral (
               select task_id from dispatches where feature_id = q.id and state = 'live' and kind in ('work', 'review')
               order by id desc limit $3
             ) d
             union all
             select q.id, null, r.task_id, false, 3
             from unnest($1::uuid[]) as q(id)
             cross join lateral (
               select task_id from ready_tasks where feature_id = q.id and kind = 'work' limit $3
             ) r
           )
           select n.feature_id as "feature!", n.waits_for as "waits_for?", n.id as "id!: TaskId", x.title as "title!",
                  n.is_running as "is_running!", x.paths as "paths!"
           from near n
           cross join lateral (select title, paths from task_texts where task_id = n.id limit 1) x
           order by n.place, n.id"#,
        features,
        tasks,
        most,
    )
    .fetch_all(conn)
    .await
}

/// A resolved blocker, for the prompts of its dependents.
#[derive(Debug, Clone)]
pub struct Prerequisite {
    pub of: TaskId,
    pub id: TaskId,
    pub title: String,
    pub skipped: bool,
    pub summary: Option<String>,
    /// Number of the task's resolved blockers.
    pub in_all: i64,
}

/// The blockers of tasks with the journal of the attempt that finished them, at most 20 per task.
pub async fn prerequisites(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Prerequisite>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
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
               select case when journal_doubted_by is null then journal end as journal
               from dispatches where task_id = t.id and outcome = 'done' order by claimed_at desc, id desc limit 1
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
            // Nobody verified the journal of a skipped task.
            summary: row.journal.filter(|_| !row.skipped),
            in_all: row.in_all,
        })
        .collect())
}

#[derive(Debug, Clone)]
pub struct ConflictFacts {
    pub task: TaskId,
    /// The commit that conflicts with the branch.
    pub commit: String,
    pub paths: Vec<String>,
    pub others: Vec<OtherSide>,
}

/// A landed task on the other side of a conflict.
#[derive(Debug, Clone)]
pub struct OtherSide {
    pub id: TaskId,
    pub title: String,
    pub description: String,
    pub journal: Option<String>,
}

/// The last conflicts of tasks, with the tasks of the other side.
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
             select case when journal_doubted_by is null then journal end as journal
             from dispatches where task_id = o.id and outcome = 'done' order by claimed_at desc, id desc limit 1
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

/// Changes of tasks to verify, from the attempts that ended at the commit to verify.
pub async fn changes(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<HashMap<TaskId, Change>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        r#"select t.id, last.change::text as "change!"
           from tasks t
           cross join lateral (
             select change from dispatches
             where task_id = t.id and commit = t.start_commit and change is not null
             order by claimed_at desc, id desc
             limit 1
           ) last
           where t.id = any($1)"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    // Omits a value of another version that cannot be read.
    let read = |text: &str| serde_json::from_str(text).ok();
    let changes = rows
        .into_iter()
        .filter_map(|row| Some((TaskId(row.id), read(&row.change)?)));
    Ok(changes.collect())
}

/// Facts for the choice of a model and an agent (SPEC 7.1, 8).
#[derive(Debug, Clone)]
pub struct ModelFacts {
    /// Number of the last attempt.
    pub attempt: i32,
    pub pool: String,
    /// The agent of the task, or of its run.
    pub agent: Option<String>,
    /// Consecutive failures that a stronger model may fix.
    pub failures: i16,
    pub strategy: Strategy,
    pub run_model: Option<String>,
    pub task_model: Option<String>,
    /// The model that an agent requested for the next attempt.
    pub hint: Option<String>,
    pub recent: u32,
    pub recent_done: u32,
    /// Consecutive finished attempts that were rated trivial or easy.
    pub easy_streak: u32,
    pub iterations: i32,
    pub plan_given: bool,
    /// The greatest usage of the task's sessions of this kind.
    pub used_before: Usual,
    pub repo_id: String,
    /// The last difficulty rating of an attempt.
    pub difficulty: Option<Difficulty>,
    /// Failures before a person is asked.
    pub retries_left: i32,
}

/// Reads facts for the choice of models, for tasks of running features.
pub async fn models(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<(TaskId, ModelFacts)>> {
    let rows = sqlx::query!(
        r#"with fs as (
             select f.id as feature_id, r.id as run_id, r.started_at
             from features f
             join runs r on r.id = f.current_run
             where f.id = any(array(select distinct feature_id from tasks where id = any($1)))
           ), recent as materialized (
             select fs.feature_id, count(*)::int as n, (count(*) filter (where last.is_done))::int as done,
                    array_agg(last.is_done and coalesce(last.difficulty in ('trivial', 'easy'), false)
                              order by last.settled_at desc, last.id desc) as easy
             from fs
             cross join lateral (
               select d.id, d.settled_at, d.difficulty,
                      -- What its verifier or its gate refused was not done. With `exists` a plan may gather these from all dispatches.
                      d.outcome = 'done' and (
                        select true from dispatches v
                        where v.task_id = d.task_id and v.attempt = d.attempt and v.kind in ('verify', 'integrate')
                          and v.outcome = 'failed'
                        limit 1
                      ) is null as is_done
               from dispatches d
               where d.feature_id = fs.feature_id and d.journal is not null and d.kind = 'work' and d.run_id = fs.run_id
                 and d.settled_at >= fs.started_at
               order by d.settled_at desc, d.id desc
               limit 10
             ) last
             group by fs.feature_id
           )
           select t.id, t.attempt, t.too_hard as failures, x.pool, coalesce(nullif(x.agent, ''), nullif(r.agent, '')) as agent, r.model_strategy as "model_strategy: Strategy", r.model as run_model, x.model as task_model,
                  x.hinted_model as hint, r.iterations,
                  coalesce(recent.n, 0) as "recent!", coalesce(recent.done, 0) as "recent_done!",
                  coalesce(recent.easy, '{}') as "easy!",
                  ft.plan is not null as "plan_given!", own.usd as own_usd, own.tokens as own_tokens, f.repo_id,
                  t.max_retries - t.failures as "retries_left!",
                  (select difficulty from dispatches
                   where task_id = t.id and difficulty is not null
                   order by claimed_at desc, id desc
                   limit 1) as difficulty
           from tasks t
           join task_texts x on x.task_id = t.id
           join features f on f.id = t.feature_id
           join feature_texts ft on ft.feature_id = f.id
           join runs r on r.id = f.current_run
           left join recent on recent.feature_id = t.feature_id
           cross join lateral (
             select max(cost_usd) as usd, max(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) as tokens
             from dispatches
             where task_id = t.id and kind = t.next_kind
           ) own
           where t.id = any($1)"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let facts = ModelFacts {
                attempt: row.attempt,
                pool: row.pool,
                agent: row.agent,
                failures: row.failures,
                strategy: row.model_strategy,
                run_model: row.run_model,
                task_model: row.task_model,
                hint: row.hint,
                recent: u32::try_from(row.recent).unwrap_or(0),
                recent_done: u32::try_from(row.recent_done).unwrap_or(0),
                easy_streak: row.easy.iter().take_while(|easy| **easy).map(|_| 1).sum(),
                iterations: row.iterations,
                plan_given: row.plan_given,
                used_before: Usual {
                    microusd: row.own_usd.map(microusd).filter(|used| *used > 0),
                    tokens: row.own_tokens.filter(|used| *used > 0),
                },
                repo_id: row.repo_id,
                difficulty: row.difficulty.as_deref().and_then(Difficulty::from_word),
                retries_left: row.retries_left,
            };
            (TaskId(row.id), facts)
        })
        .collect())
}
