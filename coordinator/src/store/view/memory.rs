//! Memory entries for people, with their sources and the results of showing them.

use std::collections::HashMap;

pub use ralph_api::view::{MemoryView, Relative, UseView};
use ralph_shared::ids::DispatchId;
use sqlx::PgConnection;
use uuid::Uuid;

use super::page::{Cursor, Page, cut};
use crate::domain::recall::Kind;

/// Entries to list.
#[derive(Debug, Clone, Default)]
pub struct MemoryFilter {
    pub repo: Option<String>,
    pub kind: Option<Kind>,
    /// Include entries that prompts do not show any more, or not yet.
    pub all: bool,
}

/// The short form of an entry's id.
pub fn memory_id(kind: Kind, id: Uuid) -> String {
    let letter = match kind {
        Kind::Learning => 'l',
        Kind::Knowledge => 'k',
        Kind::Journal => 'd',
    };
    let hex = id.simple().to_string();
    format!("{letter}-{}", &hex[20..])
}

/// Entries, the newest first.
pub async fn memory_page(
    conn: &mut PgConnection,
    filter: &MemoryFilter,
    cursor: Cursor,
    limit: i64,
) -> sqlx::Result<Page<MemoryView>> {
    let ids = sqlx::query_scalar!(
        r#"select id as "id!"
           from (
             select id, 'learning'::memory_kind as kind, repo_id, released_at, pruned_at, superseded_by, stale_since
             from learnings
             union all
             select id, 'knowledge', repo_id, released_at, pruned_at, superseded_by, stale_since from knowledge
           ) e
           where ($1::text is null or repo_id = $1) and ($2::memory_kind is null or kind = $2)
             and ($3 or (released_at is not null and pruned_at is null and superseded_by is null and stale_since is null))
             and ($4::uuid is null or id < $4)
           order by id desc
           limit $5"#,
        filter.repo,
        filter.kind as Option<Kind>,
        filter.all,
        cursor.0,
        limit + 1,
    )
    .fetch_all(&mut *conn)
    .await?;
    let (ids, next) = cut(ids, limit);
    let items = memory_entries(conn, &ids).await?;
    Ok(Page { items, next })
}

/// Entries by the last digits of their ids, or by their beginning.
pub async fn find_memory(conn: &mut PgConnection, text: &str) -> sqlx::Result<Vec<Uuid>> {
    let digits = text
        .split_once('-')
        .map_or(text, |(_, digits)| digits)
        .to_lowercase();
    let hex = !digits.is_empty() && digits.len() <= 12 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if !hex {
        return Ok(Vec::new());
    }
    sqlx::query_scalar!(
        r#"select id as "id!"
           from (select id from learnings union all select id from knowledge) e
           where right(replace(id::text, '-', ''), 12) like $1 || '%'
           limit 3"#,
        digits,
    )
    .fetch_all(conn)
    .await
}

/// Short forms of the newest entries, at most `limit` of each kind.
pub async fn newest_memories(conn: &mut PgConnection, limit: i64) -> sqlx::Result<Vec<String>> {
    let rows = sqlx::query!(
        r#"(select id as "id!", 'learning'::memory_kind as "kind!: Kind" from learnings order by id desc limit $1)
           union all
           (select id, 'knowledge' from knowledge order by id desc limit $1)"#,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| memory_id(row.kind, row.id)).collect())
}

/// The texts that name entries by their whole ids, as [`memory_id`] writes them.
pub async fn find_memories(
    conn: &mut PgConnection,
    texts: &[String],
) -> sqlx::Result<HashMap<String, Vec<Uuid>>> {
    let digits = texts.iter().map(|text| {
        let digits = text.split_once('-').map_or(text.as_str(), |(_, digits)| digits);
        digits.to_lowercase()
    });
    let rows = sqlx::query!(
        r#"with named as materialized (
             select distinct text, digits
             from unnest($1::text[], $2::text[]) as n(text, digits)
             where digits ~ '^[0-9a-f]{12}$'
           )
           select n.text as "text!", e.id as "id!"
           from (select id from learnings union all select id from knowledge) e
           join named n on n.digits = right(replace(e.id::text, '-', ''), 12)"#,
        texts,
        &digits.collect::<Vec<_>>(),
    )
    .fetch_all(conn)
    .await?;
    let mut found: HashMap<String, Vec<Uuid>> = HashMap::new();
    for row in rows {
        found.entry(row.text).or_default().push(row.id);
    }
    Ok(found)
}

/// Entries by their ids, the newest first.
pub async fn memory_entries(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<MemoryView>> {
    let rows = sqlx::query!(
        r#"select e.id as "id!", e.kind as "kind!: Kind", e.repo_id as "repo_id!", e.category, e.title as "title!",
                  e.body as "body!", e.tags as "tags!", e.paths as "paths!", e.feature, e.weight as "weight!",
                  e.origin as "origin!", e.external_id, e.task_id, e.dispatch_id, e.created_at as "created_at!",
                  e.released_at is not null as "released!", e.pruned_at is not null as "pruned!", e.pruned_because,
                  e.stale_since is not null as "stale!", e.superseded_by, e.last_used_at, e.doubted_by,
                  (select count(*) from learnings w where w.superseded_by = e.id and w.is_witness)
                    + (select count(*) from knowledge w where w.superseded_by = e.id and w.is_witness) as "witnesses!",
                  d.attempt as "attempt?", d.agent, d.model, u.shown as "shown!", u.landed as "landed!",
                  u.failed as "failed!"
           from (
             select id, 'learning'::memory_kind as kind, repo_id, category, title, body, tags, paths,
                    null::text as feature, weight, origin::text, external_id, task_id, dispatch_id, created_at,
                    released_at, pruned_at, pruned_because, stale_since, superseded_by, last_used_at, doubted_by
             from learnings
             where id = any($1)
             union all
             select id, 'knowledge', repo_id, null, title, body, tags, paths, feature, weight, origin::text, external_id,
                    task_id, dispatch_id, created_at, released_at, pruned_at, pruned_because, stale_since, superseded_by,
                    last_used_at, doubted_by
             from knowledge
             where id = any($1)
           ) e
           left join dispatches d on d.id = e.dispatch_id
           cross join lateral (
             select count(*) as shown, count(*) filter (where outcome = 'landed') as landed,
                    count(*) filter (where outcome = 'failed') as failed
             from memory_uses
             where entry = e.id and left_out is null
           ) u
           order by e.id desc"#,
        ids,
    )
    .fetch_all(conn)
    .await?;
    let dispatch = |id: Uuid| DispatchId(id).to_string();
    Ok(rows
        .into_iter()
        .map(|row| MemoryView {
            id: memory_id(row.kind, row.id),
            kind: row.kind,
            repo: row.repo_id,
            status: match (row.pruned, row.superseded_by.is_some(), row.released, row.stale) {
                (true, ..) => "pruned",
                (_, true, ..) => "superseded",
                (_, _, false, _) => "quarantine",
                (.., true) => "stale",
                _ => "live",
            }
            .to_owned(),
            pruned_because: row.pruned_because,
            category: row.category,
            title: row.title,
            body: row.body,
            tags: row.tags,
            paths: row.paths,
            feature: row.feature,
            weight: row.weight,
            origin: row.origin,
            external_id: row.external_id,
            task: row.task_id.map(|id| ralph_shared::ids::TaskId(id).to_string()),
            attempt: row.attempt,
            dispatch: row.dispatch_id.map(dispatch),
            agent: row.agent,
            model: row.model,
            shown: row.shown,
            landed: row.landed,
            failed: row.failed,
            superseded_by: row.superseded_by.map(|id| memory_id(row.kind, id)),
            witnesses: row.witnesses,
            doubted_by: row.doubted_by.map(|id| memory_id(row.kind, id)),
            family: Vec::new(),
            last_used_at: row.last_used_at,
            created_at: row.created_at,
        })
        .collect())
}

/// The relatives of an entry, at most 100.
pub async fn relatives(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Vec<Relative>> {
    let rows = sqlx::query!(
        r#"with mine as (
             select dispatch_id from learnings where id = $1
             union all
             select dispatch_id from knowledge where id = $1
           ), readers as (
             select dispatch_id from memory_uses where entry = $1 and left_out is null
           ), related as (
             select 1 as place, 'made from' as relation, source as id from memory_sources where entry = $1
             union all
             select 2, 'written after', u.entry
             from mine m join memory_uses u on u.dispatch_id = m.dispatch_id
             where u.left_out is null and u.kind <> 'journal'
             union all
             select 3, 'merged into', entry from memory_sources where source = $1
             union all
             select 4, case when is_witness then 'confirmed by' else 'replaced' end, id from learnings where superseded_by = $1
             union all
             select 4, case when is_witness then 'confirmed by' else 'replaced' end, id from knowledge where superseded_by = $1
             union all
             select 5, case when l.doubted_by = $1 then 'repeated by' else 'read by the author of' end, l.id
             from readers r join learnings l on l.dispatch_id = r.dispatch_id
             union all
             select 5, case when k.doubted_by = $1 then 'repeated by' else 'read by the author of' end, k.id
             from readers r join knowledge k on k.dispatch_id = r.dispatch_id
           )
           select distinct on (id) place as "place!", relation as "relation!", id as "id!"
           from related
           where id <> $1
           order by id, place
           limit 100"#,
        id,
    )
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let entries = memory_entries(conn, &ids).await?;
    let mut relatives: Vec<(i32, Relative)> = Vec::new();
    for row in rows {
        let names = [Kind::Learning, Kind::Knowledge].map(|kind| memory_id(kind, row.id));
        if let Some(entry) = entries.iter().find(|entry| names.contains(&entry.id)) {
            let first_line = entry.body.lines().next().unwrap_or_default();
            let title = if entry.title.is_empty() {
                first_line
            } else {
                &entry.title
            };
            let relative = Relative {
                relation: row.relation,
                id: entry.id.clone(),
                status: entry.status.clone(),
                title: title.chars().take(120).collect(),
            };
            relatives.push((row.place, relative));
        }
    }
    relatives.sort_by(|one, other| (one.0, &one.1.id).cmp(&(other.0, &other.1.id)));
    Ok(relatives.into_iter().map(|(_, relative)| relative).collect())
}

/// Entries that a dispatch was shown or that were left out, and whether the dispatch was held out.
pub async fn uses(
    conn: &mut PgConnection,
    dispatch: DispatchId,
) -> sqlx::Result<(Vec<UseView>, Option<bool>)> {
    let held_out = sqlx::query_scalar!(
        "select held_out from memory_trials where dispatch_id = $1",
        dispatch.0
    )
    .fetch_optional(&mut *conn)
    .await?;
    let rows = sqlx::query!(
        r#"select u.entry, u.kind as "kind: Kind", u.score, u.left_out,
                  case
                    when 'revoked' in (l.pruned_because, k.pruned_because) then 'revoked since'
                    when coalesce(l.doubted_by, k.doubted_by, d.journal_doubted_by) is not null
                      then 'in doubt since: it repeats what was revoked'
                  end as since,
                  coalesce(nullif(l.title, ''), left(l.body, 120), k.title, x.title, '') as "title!"
           from memory_uses u
           left join learnings l on u.kind = 'learning' and l.id = u.entry
           left join knowledge k on u.kind = 'knowledge' and k.id = u.entry
           left join dispatches d on u.kind = 'journal' and d.id = u.entry
           left join task_texts x on x.task_id = d.task_id
           where u.dispatch_id = $1
           order by u.place"#,
        dispatch.0,
    )
    .fetch_all(conn)
    .await?;
    let uses = rows
        .into_iter()
        .map(|row| UseView {
            id: memory_id(row.kind, row.entry),
            kind: row.kind,
            score: row.score,
            shown: row.left_out.is_none(),
            reason: row.left_out.or(row.since),
            title: row.title,
        })
        .collect();
    Ok((uses, held_out))
}

/// Results of first attempts with memory of other tasks, and of held-out ones: (landed, ended). Only first
/// attempts at work are held out, so others have nothing to compare with.
pub async fn trials(conn: &mut PgConnection, repo: Option<&str>) -> sqlx::Result<[(i64, i64); 2]> {
    let rows = sqlx::query!(
        r#"select m.held_out, count(*) filter (where m.outcome = 'landed') as "landed!", count(*) as "ended!"
           from memory_trials m
           join dispatches d on d.id = m.dispatch_id
           where m.outcome in ('landed', 'failed') and d.attempt = 1 and d.kind = 'work'
             and ($1::text is null or m.repo_id = $1)
           group by held_out"#,
        repo,
    )
    .fetch_all(conn)
    .await?;
    let of = |held_out: bool| {
        rows.iter()
            .find(|row| row.held_out == held_out)
            .map_or((0, 0), |row| (row.landed, row.ended))
    };
    Ok([of(false), of(true)])
}

/// The entries whose weight outcomes changed most, up and down, at most ten of each.
pub async fn most_weighed(conn: &mut PgConnection, repo: Option<&str>) -> sqlx::Result<Vec<MemoryView>> {
    let ids = sqlx::query_scalar!(
        r#"with weighed as (
             select id, weight from learnings where weight <> 1 and ($1::text is null or repo_id = $1)
             union all
             select id, weight from knowledge where weight <> 1 and ($1::text is null or repo_id = $1)
           )
           (select id as "id!" from weighed where weight > 1 order by weight desc limit 10)
           union
           (select id from weighed where weight < 1 order by weight limit 10)"#,
        repo,
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut entries = memory_entries(conn, &ids).await?;
    entries.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    Ok(entries)
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemorySizes {
    /// Findable entries of all repositories, by kind.
    pub entries: Vec<(Kind, i64)>,
    /// Indexed entries whose words are not counted yet.
    pub uncounted: i64,
    /// Memories that have a floor.
    pub calibrated: i64,
}

/// Reads the sizes; counts uncounted entries up to 10,000.
pub async fn memory_sizes(conn: &mut PgConnection) -> sqlx::Result<MemorySizes> {
    let entries = sqlx::query!(
        r#"select kind as "kind: Kind", sum(entries)::bigint as "entries!", count(floor) as "calibrated!"
           from memory_stats
           group by kind
           order by kind"#
    )
    .fetch_all(&mut *conn)
    .await?;
    let uncounted = sqlx::query_scalar!(
        r#"select least(coalesce(sum(cardinality(docs)), 0), 10000) as "n!"
           from (
             select docs from memory_unmerged limit 10000
           ) u"#
    )
    .fetch_one(conn)
    .await?;
    Ok(MemorySizes {
        calibrated: entries.iter().map(|row| row.calibrated).sum(),
        entries: entries.into_iter().map(|row| (row.kind, row.entries)).collect(),
        uncounted,
    })
}
