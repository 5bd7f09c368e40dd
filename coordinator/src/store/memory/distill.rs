//! Sessions that merge learnings: their groups, their inputs, and their results (SPEC 6.7).

use ralph_shared::ids::{DispatchId, RunId, TaskId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::recall::lifecycle::Group;

/// Learnings of one repository with a common tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagged {
    pub repo_id: String,
    /// In lower case.
    pub tag: String,
    pub group: Group,
}

/// Takes the lock for the search for groups until the transaction ends. Returns whether it was free.
pub async fn try_lock(conn: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select pg_try_advisory_xact_lock(hashtextextended('memory-distill', 0)) as "locked!""#
    )
    .fetch_one(conn)
    .await
}

/// Groups of more than `above` live learnings of agents, the largest first, in repositories without a merging
/// session. Omits tags that are too long for an index.
pub async fn groups(conn: &mut PgConnection, above: i64, most: i64) -> sqlx::Result<Vec<Tagged>> {
    let rows = sqlx::query!(
        r#"with live as (
             select repo_id, tags from learnings
             where released_at is not null and pruned_at is null and superseded_by is null and stale_since is null
               and origin in ('attempt', 'distilled')
               and not exists (
                 select from distillations d where d.repo_id = learnings.repo_id and d.ended_at is null
               )
           ), sizes as (
             select repo_id, count(*) as entries from live group by repo_id having count(*) > $1
           ), groups as (
             select repo_id, t.tag, count(*) as size
             from live
             cross join lateral (select distinct lower(tag) as tag from unnest(tags) as u(tag)) t
             where repo_id in (select repo_id from sizes) and octet_length(t.tag) <= 1000
             group by repo_id, t.tag
             having count(*) > $1
           )
           select g.repo_id as "repo_id!", g.tag as "tag!", g.size as "size!", s.entries as "live!",
                  (select d.left_over from distillations d
                   where d.repo_id = g.repo_id and d.tag = g.tag
                   order by d.started_at desc limit 1) as left_over
           from groups g
           join sizes s on s.repo_id = g.repo_id
           order by g.size desc, g.repo_id, g.tag
           limit $2"#,
        above,
        most,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Tagged {
            repo_id: row.repo_id,
            tag: row.tag,
            group: Group {
                size: row.size,
                live: row.live,
                left_over: row.left_over,
            },
        })
        .collect())
}

/// Cost in USD and number of the sessions that started in the last 24 hours; running ones count with their
/// shares.
pub async fn spent_today(conn: &mut PgConnection) -> sqlx::Result<(f64, i64)> {
    let row = sqlx::query!(
        r#"select coalesce(sum(case when r.ended_at is null then greatest(r.cost_usd, r.max_cost_usd) else r.cost_usd end), 0)
                    as "usd!",
                  count(*) as "begun!"
           from distillations d
           left join runs r on r.id = d.run_id
           where d.started_at > now() - interval '1 day'"#
    )
    .fetch_one(conn)
    .await?;
    Ok((row.usd, row.begun))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mergeable {
    pub id: Uuid,
    pub category: String,
    pub tags: Vec<String>,
    pub title: String,
    pub body: String,
    pub paths: Vec<String>,
    /// Whether it may still be shown to others.
    pub live: bool,
}

/// The oldest live learnings of agents with a tag; they never replace people's entries.
pub async fn with_tag(
    conn: &mut PgConnection,
    repo_id: &str,
    tag: &str,
    most: i64,
) -> sqlx::Result<Vec<Mergeable>> {
    sqlx::query_as!(
        Mergeable,
        r#"select id, category, tags, title, body, paths, true as "live!"
           from learnings
           where repo_id = $1 and released_at is not null and pruned_at is null and superseded_by is null
             and stale_since is null and origin in ('attempt', 'distilled') and $2 in (select lower(tag) from unnest(tags) as u(tag))
           order by id
           limit $3"#,
        repo_id,
        tag,
        most,
    )
    .fetch_all(conn)
    .await
}

/// A new session that merges learnings.
#[derive(Debug, Clone)]
pub struct NewDistillation {
    pub id: Uuid,
    pub repo_id: String,
    pub tag: String,
    pub task: TaskId,
    pub run: RunId,
    pub entries: Vec<Uuid>,
    pub group_size: i64,
}

pub async fn insert(conn: &mut PgConnection, new: &NewDistillation) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into distillations (id, repo_id, tag, task_id, run_id, entries, left_over)
         values ($1, $2, $3, $4, $5, $6, $7)",
        new.id,
        new.repo_id,
        new.tag,
        new.task.0,
        new.run.0,
        &new.entries,
        new.group_size,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The order for a merging session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    pub task: TaskId,
    pub repo_id: String,
    pub tag: String,
    /// In the order of the prompt.
    pub entries: Vec<Mergeable>,
}

/// The current entries that these tasks merge.
pub async fn ordered(conn: &mut PgConnection, tasks: &[Uuid]) -> sqlx::Result<Vec<Ordered>> {
    let rows = sqlx::query!(
        r#"select d.task_id as "task!", d.repo_id, d.tag, l.id, l.category, l.tags, l.title, l.body, l.paths,
                  l.pruned_at is null and l.superseded_by is null and l.stale_since is null as "live!"
           from distillations d
           cross join lateral unnest(d.entries) with ordinality as e(id, number)
           join learnings l on l.id = e.id
           where d.task_id = any($1)
           order by d.task_id, e.number"#,
        tasks,
    )
    .fetch_all(conn)
    .await?;
    let mut ordered: Vec<Ordered> = Vec::new();
    for row in rows {
        let entry = Mergeable {
            id: row.id,
            category: row.category,
            tags: row.tags,
            title: row.title,
            body: row.body,
            paths: row.paths,
            live: row.live,
        };
        match ordered.last_mut().filter(|last| last.task.0 == row.task) {
            Some(last) => last.entries.push(entry),
            None => ordered.push(Ordered {
                task: TaskId(row.task),
                repo_id: row.repo_id,
                tag: row.tag,
                entries: vec![entry],
            }),
        }
    }
    Ok(ordered)
}

/// Records that a person changed an entry after sessions received it.
pub async fn note_edit(conn: &mut PgConnection, entry: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "update distillations set edited = true where ended_at is null and $1 = any(entries)",
        entry,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Number of entries that a task received, including deleted ones; `None` when one of them has changed since.
pub async fn given(conn: &mut PgConnection, task: TaskId) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!(
        r#"select cardinality(entries)::bigint as "n!" from distillations where task_id = $1 and not edited"#,
        task.0
    )
    .fetch_optional(conn)
    .await
}

/// Replaces the entries that `new` merges; a dispatch made it from all `sources`. It inherits their average
/// weight.
pub async fn supersede(
    conn: &mut PgConnection,
    new: Uuid,
    (task, dispatch): (TaskId, DispatchId),
    merged: &[Uuid],
    sources: &[Uuid],
) -> sqlx::Result<()> {
    sqlx::query!(
        "with old as (
           update learnings set superseded_by = $1 where id = any($4) returning weight
         ), learned as (
           update learnings set task_id = $2, dispatch_id = $3, weight = coalesce((select avg(weight)::real from old), 1)
           where id = $1
         ), known as (
           update knowledge set task_id = $2, dispatch_id = $3 where id = $1
         )
         insert into memory_sources (entry, source)
         select $1, source from unnest($5::uuid[]) as s(source)
         on conflict do nothing",
        new,
        task.0,
        dispatch.0,
        merged,
        sources,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records the result of a task's session: `made` entries replace `merged` ones.
pub async fn close(conn: &mut PgConnection, task: TaskId, made: i32, merged: i32) -> sqlx::Result<()> {
    sqlx::query!(
        "update distillations
         set ended_at = now(), made = $2::int, merged = $3::int, left_over = left_over - $3::int + $2::int
         where task_id = $1 and ended_at is null",
        task.0,
        made,
        merged,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Closes orders whose run ended without an answer, or whose feature is gone. Returns their number.
pub async fn close_abandoned(conn: &mut PgConnection) -> sqlx::Result<u64> {
    let closed = sqlx::query!(
        "update distillations d set ended_at = now()
         where d.ended_at is null
           and (d.task_id is null
                or not exists (select from runs r where r.feature_id = (select feature_id from tasks where id = d.task_id)
                                 and r.ended_at is null))"
    )
    .execute(conn)
    .await?;
    Ok(closed.rows_affected())
}

/// All entries that were made from any of `sources`, directly or not.
pub async fn made_from(conn: &mut PgConnection, sources: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with recursive made as (
             select entry from memory_sources where source = any($1)
             union
             select s.entry from made join memory_sources s on s.source = made.entry
           )
           select entry as "entry!" from made"#,
        sources,
    )
    .fetch_all(conn)
    .await
}
