//! Known content of the commits that sessions start from: the repository's own knowledge, and the files of
//! memory entries (SPEC 6.5, 6.7).

use std::collections::HashMap;

use ralph_shared::ids::FeatureId;
use ralph_shared::wire::{NEVER_SCANNED, RepoScanOrder};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

/// How long a path counts as checked, unless a commit changes it. Minutes.
const CERTAIN_MINUTES: f64 = 10.0;
/// Most paths that one session checks.
const MAX_PATHS: i64 = 200;
/// Longest stored path. Bytes.
const PATH_BYTES: usize = 300;

/// Hashes of a folder's files by name.
pub type Files = HashMap<String, String>;

/// Scan orders for sessions of features. A feature without a scan gets the changes since the last scan of its
/// repository, since files are also renamed between features.
pub async fn orders(
    conn: &mut PgConnection,
    features: &[Uuid],
) -> sqlx::Result<HashMap<Uuid, RepoScanOrder>> {
    let rows = sqlx::query!(
        r#"select f.id as "id!", s.feature_id is not null as "is_surveyed!", s.knowledge_tree as "knowledge_tree?",
                  coalesce(
                    s.head,
                    (select head from surveys where repo_id = f.repo_id order by at desc limit 1)
                  ) as "since?",
                  array(
                    select p.path
                    from memory_paths p
                    where p.repo_id = f.repo_id
                      and (p.checked_at is null or p.checked_at < now() - $2 * interval '1 minute')
                    order by p.checked_at nulls first
                    limit $3
                  ) as "paths!"
           from features f
           left join surveys s on s.feature_id = f.id
           where f.id = any($1)"#,
        features,
        CERTAIN_MINUTES,
        MAX_PATHS,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let order = RepoScanOrder {
                since: row.since,
                knowledge: if row.is_surveyed {
                    row.knowledge_tree
                } else {
                    Some(NEVER_SCANNED.to_owned())
                },
                paths: row.paths,
            };
            (row.id, order)
        })
        .collect())
}

/// Known facts on a feature's head.
#[derive(Debug, Clone, Default)]
pub struct KnownHead {
    pub repo_id: String,
    pub files: Files,
}

/// `None` when the feature is gone.
pub async fn known(conn: &mut PgConnection, feature: FeatureId) -> sqlx::Result<Option<KnownHead>> {
    let row = sqlx::query!(
        r#"select f.repo_id, s.files as "files?: Json<Files>"
           from features f
           left join surveys s on s.feature_id = f.id
           where f.id = $1"#,
        feature.0,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| KnownHead {
        repo_id: row.repo_id,
        files: row.files.map(|files| files.0).unwrap_or_default(),
    }))
}

/// Stores the head that was scanned.
pub async fn keep_head(
    conn: &mut PgConnection,
    feature: FeatureId,
    repo_id: &str,
    head: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into surveys (feature_id, repo_id, head) values ($1, $2, $3)
         on conflict (feature_id) do update set head = $3, at = now()",
        feature.0,
        repo_id,
        head,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores the files of the head's knowledge folder.
pub async fn keep_files(
    conn: &mut PgConnection,
    feature: FeatureId,
    tree: Option<&str>,
    files: &Files,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update surveys set knowledge_tree = $2, files = $3 where feature_id = $1",
        feature.0,
        tree,
        Json(files) as Json<&Files>,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Names of repository files that are entries, hidden or not, at any head.
pub async fn named(conn: &mut PgConnection, repo_id: &str) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        r#"select external_id as "external_id!"
           from knowledge
           where repo_id = $1 and origin = 'repository' and external_id is not null"#,
        repo_id,
    )
    .fetch_all(conn)
    .await
}

/// The files that the head of another unfinished feature has.
pub async fn had_elsewhere(
    conn: &mut PgConnection,
    feature: FeatureId,
    repo_id: &str,
    names: &[String],
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        r#"select name as "name!"
           from unnest($3::text[]) as n(name)
           where exists (
             select from surveys s
             join features f on f.id = s.feature_id
             where s.repo_id = $2 and s.feature_id <> $1 and f.state in ('ready', 'running', 'paused')
               and s.files ? n.name
           )"#,
        feature.0,
        repo_id,
        names,
    )
    .fetch_all(conn)
    .await
}

/// Whether a file's entry, hidden or not, has the file's content.
pub async fn is_same(
    conn: &mut PgConnection,
    repo_id: &str,
    external_id: &str,
    sha256: &str,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists (
             select from knowledge where repo_id = $1 and md5(external_id) = md5($2) and external_id = $2 and file_sha256 = $3
           ) as "same!""#,
        repo_id,
        external_id,
        sha256,
    )
    .fetch_one(conn)
    .await
}

/// Removes a file's name from its entry. Returns that entry.
pub async fn unname(conn: &mut PgConnection, repo_id: &str, external_id: &str) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar!(
        "update knowledge set external_id = null
         where repo_id = $1 and md5(external_id) = md5($2) and external_id = $2
         returning id",
        repo_id,
        external_id,
    )
    .fetch_optional(conn)
    .await
}

/// Visible entries with this file hash that tasks landed.
pub async fn landed_copies(conn: &mut PgConnection, repo_id: &str, sha256: &str) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "select id
         from knowledge
         where repo_id = $1 and origin = 'attempt' and file_sha256 = $2 and pruned_at is null
         order by id",
        repo_id,
        sha256,
    )
    .fetch_all(conn)
    .await
}

/// Sets the file of an entry, and the entry that it replaces.
pub async fn name(conn: &mut PgConnection, id: Uuid, sha256: &str, old: Option<Uuid>) -> sqlx::Result<()> {
    sqlx::query!(
        "with old as (
           update knowledge set superseded_by = $1 where id = $3 and pruned_at is null
         )
         update knowledge set file_sha256 = $2 where id = $1",
        id,
        sha256,
        old,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records the files of entries, to be checked.
pub async fn note_paths(conn: &mut PgConnection, paths: &[(String, String)]) -> sqlx::Result<()> {
    let valid: Vec<&(String, String)> = paths
        .iter()
        .filter(|(repo, path)| !repo.is_empty() && path.len() <= PATH_BYTES)
        .collect();
    if valid.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into memory_paths (repo_id, path)
         select distinct repo_id, path from unnest($1::text[], $2::text[]) as p(repo_id, path)
         order by 1, 2
         on conflict do nothing",
        &valid.iter().map(|(repo, _)| repo.clone()).collect::<Vec<_>>(),
        &valid.iter().map(|(_, path)| path.clone()).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records that paths exist. Returns those that were known to be missing.
pub async fn present(conn: &mut PgConnection, repo_id: &str, paths: &[String]) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "with before as (
           select path, missing_since from memory_paths where repo_id = $1 and path = any($2) order by path for update
         )
         update memory_paths p
         set seen = true, missing_since = null, checked_at = now()
         from before b
         where p.repo_id = $1 and p.path = b.path
         returning case when b.missing_since is not null then p.path end",
        repo_id,
        paths,
    )
    .fetch_all(conn)
    .await
    .map(|paths| paths.into_iter().flatten().collect())
}

/// Records that paths are missing; `deleted` ones are known to have existed. Returns those that existed
/// before.
pub async fn missing(
    conn: &mut PgConnection,
    repo_id: &str,
    paths: &[String],
    deleted: &[String],
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "with before as (
           select path, missing_since, seen or path = any($3) as seen
           from memory_paths
           where repo_id = $1 and (path = any($2) or path = any($3))
           order by path
           for update
         )
         update memory_paths p
         set seen = b.seen, missing_since = case when b.seen then coalesce(b.missing_since, now()) end, checked_at = now()
         from before b
         where p.repo_id = $1 and p.path = b.path
         returning case when b.seen and b.missing_since is null then p.path end",
        repo_id,
        paths,
        deleted,
    )
    .fetch_all(conn)
    .await
    .map(|paths| paths.into_iter().flatten().collect())
}

/// Marks entries about these paths as stale when none of their files exists. Returns them.
pub async fn mark_stale(conn: &mut PgConnection, repo_id: &str, paths: &[String]) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with learned as (
             update learnings e set stale_since = now()
             where repo_id = $1 and paths && $2 and paths <> '{}' and stale_since is null and pruned_at is null
               and not exists (
                 select from unnest(e.paths) as u(path)
                 left join memory_paths p on p.repo_id = $1 and p.path = u.path
                 where p.missing_since is null
               )
             returning id
           ), known as (
             update knowledge e set stale_since = now()
             where repo_id = $1 and paths && $2 and paths <> '{}' and stale_since is null and pruned_at is null
               and not exists (
                 select from unnest(e.paths) as u(path)
                 left join memory_paths p on p.repo_id = $1 and p.path = u.path
                 where p.missing_since is null
               )
             returning id
           )
           select id as "id!" from learned union all select id from known"#,
        repo_id,
        paths,
    )
    .fetch_all(conn)
    .await
}

/// Clears the mark of entries about these paths, which exist again. Returns them.
pub async fn unmark_stale(
    conn: &mut PgConnection,
    repo_id: &str,
    paths: &[String],
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with learned as (
             update learnings set stale_since = null
             where repo_id = $1 and paths && $2 and paths <> '{}' and stale_since is not null and pruned_at is null
             returning id
           ), known as (
             update knowledge set stale_since = null
             where repo_id = $1 and paths && $2 and paths <> '{}' and stale_since is not null and pruned_at is null
             returning id
           )
           select id as "id!" from learned union all select id from known"#,
        repo_id,
        paths,
    )
    .fetch_all(conn)
    .await
}

/// Adds new names of files to their entries; another branch may still have the old names. Skips hidden
/// entries. Returns those that changed.
pub async fn rename(
    conn: &mut PgConnection,
    repo_id: &str,
    from: &[String],
    to: &[String],
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"with renamed as materialized (
             select r.old, r.new, r.place
             from unnest($2::text[], $3::text[]) with ordinality as r(old, new, place)
             join memory_paths p on p.repo_id = $1 and p.path = r.old
           ), learned as (
             update learnings e
             set paths = paths || array(
               select new from renamed where old = any(e.paths) and new <> all(e.paths) group by new order by min(place)
             )
             where repo_id = $1 and paths && (select array_agg(old) from renamed) and paths <> '{}' and pruned_at is null
               and exists (select from renamed where old = any(e.paths) and new <> all(e.paths))
             returning id
           ), known as (
             update knowledge e
             set paths = paths || array(
               select new from renamed where old = any(e.paths) and new <> all(e.paths) group by new order by min(place)
             )
             where repo_id = $1 and paths && (select array_agg(old) from renamed) and paths <> '{}' and pruned_at is null
               and exists (select from renamed where old = any(e.paths) and new <> all(e.paths))
             returning id
           ), new as (
             insert into memory_paths (repo_id, path, seen, checked_at)
             select distinct $1, new, true, now() from renamed order by 2
             -- One that was missing is found again by whoever looks for those ([`present`]).
             on conflict (repo_id, path) do update set seen = true, checked_at = now()
           )
           select id as "id!" from learned union all select id from known"#,
        repo_id,
        from,
        to,
    )
    .fetch_all(conn)
    .await
}
