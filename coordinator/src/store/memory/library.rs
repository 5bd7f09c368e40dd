//! Learnings and knowledge for people and prompts: released entries of agents, and given entries.

use std::collections::HashMap;

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::recall::lifecycle::{Because, Hidden};
use crate::domain::recall::{Kind, Statement};
use crate::store::memory::json;

/// A released entry of any kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub id: Uuid,
    pub kind: Kind,
    /// Of a learning; empty for the other kinds.
    pub category: String,
    pub title: String,
    pub body: String,
    pub tags: Vec<String>,
    pub weight: f64,
    pub created_at: OffsetDateTime,
    /// Its name in an import.
    pub external_id: Option<String>,
    /// Whether it was given, not written by an agent's session (SPEC 6.8).
    pub trusted: bool,
    /// The task that learned it.
    pub task: Option<Uuid>,
    /// Further attempts that learned the same.
    pub witnesses: i64,
}

/// Entries of one kind that other tasks may see, in no particular order.
pub async fn live(conn: &mut PgConnection, kind: Kind, ids: &[Uuid]) -> sqlx::Result<Vec<Stored>> {
    let rows = sqlx::query!(
        r#"select id as "id!", category as "category!", title as "title!", body as "body!", tags as "tags!",
                  weight as "weight!", created_at as "created_at!", external_id,
                  origin not in ('attempt', 'distilled') as "trusted!", task_id as task,
                  (select count(*) from learnings w where w.superseded_by = learnings.id and w.is_witness) as "witnesses!"
           from learnings
           where $1 = 'learning'::memory_kind and id = any($2) and released_at is not null and pruned_at is null
             and superseded_by is null and stale_since is null
           union all
           select id, '', title, body, tags, weight, created_at, external_id, origin not in ('attempt', 'distilled'), task_id,
                  (select count(*) from knowledge w where w.superseded_by = knowledge.id and w.is_witness)
           from knowledge
           where $1 = 'knowledge'::memory_kind and id = any($2) and released_at is not null and pruned_at is null
             and superseded_by is null and stale_since is null
           union all
           select d.id, '', x.title, coalesce(d.journal, ''), '{}', 1, coalesce(d.settled_at, d.claimed_at), null, false, d.task_id,
                  0
           from dispatches d
           join task_texts x on x.task_id = d.task_id
           where $1 = 'journal'::memory_kind and d.id = any($2) and d.journal_doubted_by is null"#,
        kind as Kind,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Stored {
            id: row.id,
            kind,
            category: row.category,
            title: row.title,
            body: row.body,
            tags: row.tags,
            weight: f64::from(row.weight),
            created_at: row.created_at,
            external_id: row.external_id,
            trusted: row.trusted,
            task: row.task,
            witnesses: row.witnesses,
        })
        .collect())
}

/// A given entry: trusted at once (SPEC 6.8).
#[derive(Debug, Clone)]
pub struct GivenEntry {
    pub id: Uuid,
    pub repo_id: String,
    pub kind: Kind,
    pub origin: Origin,
    pub category: String,
    pub title: String,
    pub body: String,
    pub tags: Vec<String>,
    pub paths: Vec<String>,
    pub feature: Option<String>,
    pub created_at: OffsetDateTime,
    pub external_id: Option<String>,
}

impl GivenEntry {
    /// Only merged entries are compared with others: people's entries stand for themselves.
    fn bands(&self) -> Vec<i64> {
        match self.origin {
            Origin::Distilled => Statement::of(&format!("{} {}", self.title, self.body)).bands(),
            _ => Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "memory_origin", rename_all = "snake_case")]
pub enum Origin {
    /// An agent's session.
    Attempt,
    /// A person.
    Manual,
    /// A file.
    Import,
    /// Several others.
    Distilled,
    /// A file of the repository's own.
    Repository,
}

/// Stores given learnings and knowledge, released. Skips known external ids; returns the ids of the new ones.
pub async fn insert_given(conn: &mut PgConnection, given: &[GivenEntry]) -> sqlx::Result<Vec<Uuid>> {
    let of = |kind: Kind| given.iter().filter(move |g| g.kind == kind);
    let mut stored = insert_given_learnings(conn, &of(Kind::Learning).collect::<Vec<_>>()).await?;
    stored.extend(insert_given_knowledge(conn, &of(Kind::Knowledge).collect::<Vec<_>>()).await?);
    Ok(stored)
}

async fn insert_given_learnings(
    conn: &mut PgConnection,
    learnings: &[&GivenEntry],
) -> sqlx::Result<Vec<Uuid>> {
    if learnings.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_scalar!(
        "insert into learnings
                   (id, repo_id, category, title, body, tags, paths, origin, external_id, created_at, released_at, bands)
                 select g.id, g.repo_id, g.category, g.title, g.body,
                        array(select jsonb_array_elements_text(g.tags::jsonb)),
                        array(select jsonb_array_elements_text(g.paths::jsonb)), g.origin, g.external_id, g.created_at,
                        now(), array(select jsonb_array_elements_text(g.bands::jsonb)::bigint)
                 from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                             $8::memory_origin[], $9::text[], $10::timestamptz[], $11::text[])
                   as g(id, repo_id, category, title, body, tags, paths, origin, external_id, created_at, bands)
                 on conflict do nothing
                 returning id",
        &learnings.iter().map(|g| g.id).collect::<Vec<_>>(),
        &learnings.iter().map(|g| g.repo_id.clone()).collect::<Vec<_>>(),
        &learnings.iter().map(|g| g.category.clone()).collect::<Vec<_>>(),
        &learnings.iter().map(|g| g.title.clone()).collect::<Vec<_>>(),
        &learnings.iter().map(|g| g.body.clone()).collect::<Vec<_>>(),
        &learnings.iter().map(|g| json(&g.tags)).collect::<Vec<_>>(),
        &learnings.iter().map(|g| json(&g.paths)).collect::<Vec<_>>(),
        &learnings.iter().map(|g| g.origin).collect::<Vec<_>>() as &[Origin],
        &learnings.iter().map(|g| g.external_id.clone()).collect::<Vec<_>>() as &[Option<String>],
        &learnings.iter().map(|g| g.created_at).collect::<Vec<_>>(),
        &learnings.iter().map(|g| json(&g.bands())).collect::<Vec<_>>(),
    )
    .fetch_all(conn)
    .await
}

async fn insert_given_knowledge(
    conn: &mut PgConnection,
    knowledge: &[&GivenEntry],
) -> sqlx::Result<Vec<Uuid>> {
    if knowledge.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_scalar!(
        "insert into knowledge
                   (id, repo_id, feature, title, body, tags, paths, origin, external_id, created_at, released_at, bands)
                 select g.id, g.repo_id, g.feature, g.title, g.body,
                        array(select jsonb_array_elements_text(g.tags::jsonb)),
                        array(select jsonb_array_elements_text(g.paths::jsonb)), g.origin, g.external_id, g.created_at,
                        now(), array(select jsonb_array_elements_text(g.bands::jsonb)::bigint)
                 from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                             $8::memory_origin[], $9::text[], $10::timestamptz[], $11::text[])
                   as g(id, repo_id, feature, title, body, tags, paths, origin, external_id, created_at, bands)
                 on conflict do nothing
                 returning id",
        &knowledge.iter().map(|g| g.id).collect::<Vec<_>>(),
        &knowledge.iter().map(|g| g.repo_id.clone()).collect::<Vec<_>>(),
        &knowledge.iter().map(|g| g.feature.clone()).collect::<Vec<_>>() as &[Option<String>],
        &knowledge.iter().map(|g| g.title.clone()).collect::<Vec<_>>(),
        &knowledge.iter().map(|g| g.body.clone()).collect::<Vec<_>>(),
        &knowledge.iter().map(|g| json(&g.tags)).collect::<Vec<_>>(),
        &knowledge.iter().map(|g| json(&g.paths)).collect::<Vec<_>>(),
        &knowledge.iter().map(|g| g.origin).collect::<Vec<_>>() as &[Origin],
        &knowledge.iter().map(|g| g.external_id.clone()).collect::<Vec<_>>() as &[Option<String>],
        &knowledge.iter().map(|g| g.created_at).collect::<Vec<_>>(),
        &knowledge.iter().map(|g| json(&g.bands())).collect::<Vec<_>>(),
    )
    .fetch_all(conn)
    .await
}

/// Removes the names of imported entries that other imports replaced, so that the same text counts as new: a
/// file may change and change back. Keeps names that this import itself replaces.
pub async fn let_come_back(conn: &mut PgConnection, repo_id: &str, names: &[String]) -> sqlx::Result<()> {
    sqlx::query!(
        "with given as (
           select md5(name) as hash from unnest($2::text[]) as g(name)
         )
         update knowledge old
         set external_id = null
         from knowledge new
         where old.repo_id = $1 and old.external_id is not null and md5(old.external_id) in (select hash from given)
           and old.origin = 'import' and old.pruned_at is null and new.id = old.superseded_by and new.origin = 'import'
           and md5(coalesce(new.external_id, '')) not in (select hash from given)",
        repo_id,
        names,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Locks the knowledge of repositories until the transaction ends.
pub async fn lock(conn: &mut PgConnection, repos: &[&str]) -> sqlx::Result<()> {
    let repos: Vec<String> = repos.iter().map(|&repo| repo.to_owned()).collect();
    sqlx::query!(
        "select pg_advisory_xact_lock(hashtextextended('memory:' || repo, 0))
         from unnest($1::text[]) as r(repo)
         order by repo",
        &repos,
    )
    .fetch_all(conn)
    .await?;
    Ok(())
}

/// An entry that another one may replace.
#[derive(Debug, Clone)]
pub struct Similar {
    pub id: Uuid,
    pub title: String,
    pub tags: Vec<String>,
}

/// For each of these entries, other live knowledge of its repository that has the same title in any case, or
/// a common tag and one title inside the other. Never across trust (SPEC 6.8): agents' and people's entries
/// do not replace each other.
pub async fn similar_knowledge(
    conn: &mut PgConnection,
    ids: &[Uuid],
) -> sqlx::Result<HashMap<Uuid, Vec<Similar>>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        r#"select n.id as "new!", o.id as "id!", o.title as "title!", o.tags as "tags!"
           from unnest($1::uuid[]) as q(id)
           cross join lateral (select * from knowledge where id = q.id limit 1) n
           -- Each way has an index; `or` has none.
           cross join lateral (
             select id, title, tags, origin
             from knowledge same
             where same.repo_id = n.repo_id and md5(lower(same.title)) = md5(lower(n.title)) and lower(same.title) = lower(n.title)
               and same.released_at is not null and same.pruned_at is null and same.superseded_by is null
             union
             select id, title, tags, origin
             from knowledge near
             where near.tags && n.tags and near.repo_id = n.repo_id
               and near.released_at is not null and near.pruned_at is null and near.superseded_by is null
               and (strpos(lower(near.title), lower(n.title)) > 0 or strpos(lower(n.title), lower(near.title)) > 0)
           ) o
           where o.id <> n.id and (o.origin in ('attempt', 'distilled')) = (n.origin in ('attempt', 'distilled'))
           order by o.id"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    let mut similar: HashMap<Uuid, Vec<Similar>> = HashMap::new();
    for row in rows {
        similar.entry(row.new).or_default().push(Similar {
            id: row.id,
            title: row.title,
            tags: row.tags,
        });
    }
    Ok(similar)
}

/// Replaces entries by another one; they stay linked to it.
pub async fn replace_knowledge(
    conn: &mut PgConnection,
    id: Uuid,
    tags: &[String],
    replaced: &[Uuid],
) -> sqlx::Result<()> {
    sqlx::query!(
        "with new as (
           update knowledge set tags = $2 where id = $1
         )
         update knowledge set superseded_by = $1 where id = any($3)",
        id,
        tags,
        replaced,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Changes an entry; `None` keeps the value. Returns whether it exists.
pub async fn edit(
    conn: &mut PgConnection,
    id: Uuid,
    title: Option<&str>,
    category: Option<&str>,
    body: Option<&str>,
    tags: Option<&[String]>,
) -> sqlx::Result<bool> {
    let changed = sqlx::query_scalar!(
        r#"with learned as (
             update learnings
             set title = coalesce($2, title), category = coalesce($3, category), body = coalesce($4, body),
                 tags = coalesce($5, tags), bands = null
             where id = $1
             returning id
           ), known as (
             update knowledge
             set title = coalesce($2, title), body = coalesce($4, body), tags = coalesce($5, tags), edited_at = now(),
                 bands = null
             where id = $1
             returning id
           )
           select (select count(*) from learned) + (select count(*) from known) as "n!""#,
        id,
        title,
        category,
        body,
        tags,
    )
    .fetch_one(conn)
    .await?;
    Ok(changed > 0)
}

/// An entry that a person wants to restore.
#[derive(Debug, Clone)]
pub struct RestoreCandidate {
    pub id: Uuid,
    pub kind: Kind,
    pub title: String,
    pub tags: Vec<String>,
    /// Whether its task is done, or it was given.
    pub is_released: bool,
    pub hidden: Hidden,
    pub superseded_by: Option<Uuid>,
}

pub async fn restore_candidates(
    conn: &mut PgConnection,
    ids: &[Uuid],
) -> sqlx::Result<Vec<RestoreCandidate>> {
    let rows = sqlx::query!(
        r#"select id as "id!", 'learning'::memory_kind as "kind!: Kind", title as "title!", tags as "tags!",
                  (released_at is not null or doubted_by is not null) as "is_released!",
                  (pruned_at is not null or doubted_by is not null) as "is_hidden!", pruned_because,
                  superseded_by, false as "lost_its_file!"
           from learnings
           where id = any($1)
           union all
           select id, 'knowledge', title, tags, released_at is not null or doubted_by is not null,
                  pruned_at is not null or doubted_by is not null, pruned_because, superseded_by, origin = 'repository' and external_id is null
           from knowledge
           where id = any($1)
           order by 1"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| RestoreCandidate {
            id: row.id,
            kind: row.kind,
            title: row.title,
            tags: row.tags,
            is_released: row.is_released,
            hidden: Hidden {
                is_hidden: row.is_hidden,
                because: row.pruned_because.as_deref().and_then(Because::parse),
                is_replaced: row.superseded_by.is_some(),
                lost_its_file: row.lost_its_file,
            },
            superseded_by: row.superseded_by,
        })
        .collect())
}

/// Makes hidden and doubted entries visible. Resets the state of their files, which nobody tracked meanwhile.
pub async fn restore(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "with files as materialized (
           select e.id, count(*) filter (where p.missing_since is null) as there
           from (
             select id, repo_id, paths from learnings where id = any($1)
             union all
             select id, repo_id, paths from knowledge where id = any($1)
           ) e
           cross join unnest(e.paths) as u(path)
           left join memory_paths p on p.repo_id = e.repo_id and p.path = u.path
           group by e.id
         ), stale as materialized (
           select id from files where there = 0
         ), learned as (
           update learnings
           set pruned_at = null, pruned_because = null, doubted_by = null,
               released_at = case when released_at is not null or doubted_by is not null then now() end,
               stale_since = case when id = any(array(select id from stale)) then now() end
           where id = any($1)
         )
         update knowledge
         set pruned_at = null, pruned_because = null, doubted_by = null,
             released_at = case when released_at is not null or doubted_by is not null then now() end,
             stale_since = case when id = any(array(select id from stale)) then now() end
         where id = any($1)",
        ids,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Hides entries: prompts no longer show them, but they stay.
pub async fn prune(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "with learned as (
           update learnings set pruned_at = coalesce(pruned_at, now()) where id = any($1)
         )
         update knowledge set pruned_at = coalesce(pruned_at, now()) where id = any($1)",
        ids,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes entries and the prompts that showed them, with all other prompts in the same rows. A worker has
/// its prompt already, or returns its task; a repeated claim gets a new one. Returns the numbers of entries
/// and of prompts that showed them.
pub async fn purge(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<(i64, i64)> {
    // Otherwise the entries that they replaced would lose their link and look live.
    sqlx::query!(
        "update knowledge set pruned_at = coalesce(pruned_at, now()), pruned_because = $2
         where superseded_by = any($1) and id <> all($1)",
        ids,
        Because::Purged.into_str(),
    )
    .execute(&mut *conn)
    .await?;
    let gone = sqlx::query!(
        r#"with learned as (
             delete from learnings where id = any($1) returning id
           ), known as (
             delete from knowledge where id = any($1) returning id
           ), shown as (
             select d.id, d.prompts_id
             from memory_uses u
             join dispatches d on d.id = u.dispatch_id
             where u.entry = any($1) and u.left_out is null
           ), kept as (
             delete from prompts p using shown s where p.id in (s.prompts_id, s.id)
           ), parts as (
             delete from blob_parts b using shown s where b.prompt_of = s.id
           ), sources as (
             delete from memory_sources where entry = any($1)
           )
           select (select count(*) from learned) + (select count(*) from known) as "entries!",
                  (select count(*) from shown) as "prompts!""#,
        ids,
    )
    .fetch_one(conn)
    .await?;
    Ok((gone.entries, gone.prompts))
}

/// Live entries of a repository that are older than `days` and were not shown for as long, at most `most`.
/// Uses may be deleted by then; the entry itself stores the time of the last weighed one.
pub async fn unused(conn: &mut PgConnection, repo_id: &str, days: f64, most: i64) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"select id as "id!"
           from (
             select id, created_at, last_used_at from learnings
             where repo_id = $1 and released_at is not null and pruned_at is null and superseded_by is null
             union all
             select id, created_at, last_used_at from knowledge
             where repo_id = $1 and released_at is not null and pruned_at is null and superseded_by is null
           ) e
           where greatest(created_at, last_used_at) < now() - $2 * interval '1 day'
             and not exists (
               select from memory_uses u
               where u.entry = e.id and u.left_out is null and u.used_at > now() - $2 * interval '1 day'
             )
           order by id
           limit $3"#,
        repo_id,
        days,
        most,
    )
    .fetch_all(conn)
    .await
}
