//! Revokes the entries of an attempt, and restores those that they replaced (SPEC 6.8).

use ralph_shared::ids::DispatchId;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::recall::lifecycle::Because;

/// The dispatches of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptDispatches {
    pub ids: Vec<Uuid>,
    /// Whether it may still add entries: its session runs, or was lost and may report.
    pub is_open: bool,
}

/// The dispatches of the attempt with this one, locked: a report waits until the transaction ends.
pub async fn of_attempt(conn: &mut PgConnection, dispatch: DispatchId) -> sqlx::Result<AttemptDispatches> {
    let rows = sqlx::query!(
        r#"select d.id, d.kind not in ('verify', 'integrate', 'check')
                    and (d.state = 'live' or d.state = 'lost' and coalesce(t.dispatch_id = d.id, false)) as "open!"
           from dispatches me
           join dispatches d on d.task_id = me.task_id and d.attempt = me.attempt
           join tasks t on t.id = d.task_id
           where me.id = $1
           order by d.id
           for update of d"#,
        dispatch.0,
    )
    .fetch_all(conn)
    .await?;
    Ok(AttemptDispatches {
        is_open: rows.iter().any(|row| row.open),
        ids: rows.into_iter().map(|row| row.id).collect(),
    })
}

/// Entries of dispatches: their learnings and knowledge, and everything distilled from them.
pub async fn of_dispatches(conn: &mut PgConnection, dispatches: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with recursive learned as (
             (select id from learnings where dispatch_id = any($1)
              union
              select id from knowledge where dispatch_id = any($1))
             union
             select s.entry from learned join memory_sources s on s.source = learned.id
           )
           select id as "id!" from learned"#,
        dispatches,
    )
    .fetch_all(conn)
    .await
}

/// Repositories of these entries, and of entries that the dispatches may still add.
pub async fn repositories(
    conn: &mut PgConnection,
    entries: &[Uuid],
    dispatches: &[Uuid],
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        r#"select repo_id as "repo_id!" from learnings where id = any($1)
           union
           select repo_id from knowledge where id = any($1)
           union
           select f.repo_id from dispatches d join features f on f.id = d.feature_id where d.id = any($2)"#,
        entries,
        dispatches,
    )
    .fetch_all(conn)
    .await
}

/// Hides revoked entries for good, also those that were hidden before.
pub async fn hide(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "with learned as (
           update learnings set pruned_at = coalesce(pruned_at, now()), pruned_because = $2 where id = any($1)
         )
         update knowledge set pruned_at = coalesce(pruned_at, now()), pruned_because = $2 where id = any($1)",
        ids,
        Because::Revoked.into_str(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Restores entries that the given ones replaced. If other entries replaced the given ones, links to those
/// instead. Returns entries that may be shown again. Older content of a repository's file without a name does
/// not come back.
pub async fn restore_replaced(conn: &mut PgConnection, by: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with recursive replaced as (
             select id, superseded_by from learnings where superseded_by = any($1) and id <> all($1)
             union all
             select id, superseded_by from knowledge where superseded_by = any($1) and id <> all($1)
           ), successors as (
             select id, superseded_by as next from learnings where id = any($1)
             union all
             select id, superseded_by from knowledge where id = any($1)
           ), chain as (
             select id, superseded_by as next from replaced
             union
             select c.id, s.next from chain c join successors s on s.id = c.next
           ), last as (
             select id, next from chain where next is null or next <> all($1)
           ), learned as (
             update learnings l set superseded_by = last.next, is_witness = false
             from last
             where l.id = last.id
             returning l.id, l.pruned_at, l.superseded_by
           ), known as (
             update knowledge k set superseded_by = last.next, is_witness = false
             from last
             where k.id = last.id and (last.next is not null or k.origin <> 'repository' or k.external_id is not null)
             returning k.id, k.pruned_at, k.superseded_by
           )
           select id as "id!"
           from (select * from learned union all select * from known) e
           where pruned_at is null and superseded_by is null"#,
        by,
    )
    .fetch_all(conn)
    .await
}

/// The entry that replaced this one.
pub async fn successor(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar!(
        r#"select superseded_by as "by!" from learnings where id = $1 and superseded_by is not null
           union all
           select superseded_by from knowledge where id = $1 and superseded_by is not null"#,
        id,
    )
    .fetch_optional(conn)
    .await
}

/// Deletes the notes, reports and journals of dispatches.
pub async fn forget_words(conn: &mut PgConnection, dispatches: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "with notes as (
           delete from session_memory where dispatch_id = any($1)
         ), report as (
           delete from failure_reports where dispatch_id = any($1)
         )
         update dispatches set journal = '' where id = any($1) and journal is not null",
        dispatches,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Released entries by id, for the index.
pub async fn to_index(
    conn: &mut PgConnection,
    ids: &[Uuid],
) -> sqlx::Result<Vec<crate::store::memory::Released>> {
    sqlx::query_as!(
        crate::store::memory::Released,
        r#"select id as "id!", repo_id as "repo_id!", is_knowledge as "is_knowledge!", title as "title!",
                  body as "body!", tags as "tags!", paths as "paths!", created_at as "created_at!",
                  (bands is not null and origin in ('attempt', 'distilled')) as "is_compared!"
           from (
             select id, repo_id, false as is_knowledge, title, body, tags, paths, created_at, released_at, pruned_at,
                    superseded_by, stale_since, bands, origin
             from learnings
             union all
             select id, repo_id, true, title, body, tags, paths, created_at, released_at, pruned_at, superseded_by,
                    stale_since, bands, origin
             from knowledge
           ) e
           where id = any($1) and released_at is not null and pruned_at is null and superseded_by is null
             and stale_since is null"#,
        ids,
    )
    .fetch_all(conn)
    .await
}
