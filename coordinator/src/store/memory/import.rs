//! Existing memory entries that imported ones may duplicate.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use time::OffsetDateTime;

use super::library::GivenEntry;

/// The `names` that are ids of the repository's learnings, as exports write them. They are not new, whatever
/// their state.
pub async fn learnings_named(
    conn: &mut PgConnection,
    repo_id: &str,
    names: &[String],
) -> sqlx::Result<BTreeSet<String>> {
    let digits: Vec<String> = names
        .iter()
        .filter_map(|name| name.strip_prefix("l-"))
        .filter(|digits| digits.len() == 12)
        .map(str::to_owned)
        .collect();
    if digits.is_empty() {
        return Ok(BTreeSet::new());
    }
    let known = sqlx::query_scalar!(
        r#"with named as materialized (select distinct digits from unnest($2::text[]) as n(digits))
           select n.digits as "digits!"
           from learnings l
           join named n on n.digits = right(replace(l.id::text, '-', ''), 12)
           where l.repo_id = $1"#,
        repo_id,
        &digits,
    )
    .fetch_all(conn)
    .await?;
    Ok(known.into_iter().map(|digits| format!("l-{digits}")).collect())
}

/// A live knowledge entry, of any origin, on the same subject as an imported one.
#[derive(Debug, Clone)]
pub struct ExistingEntry {
    /// Index of the imported entry.
    pub beside: usize,
    pub title: String,
    pub tags: Vec<String>,
    pub body: String,
    /// When a person added it or changed it last; `None` when no person did.
    pub by_hand_at: Option<OffsetDateTime>,
}

/// For each given entry, other live knowledge of its repository that has the same title in any case, or a
/// common tag and one title inside the other.
pub async fn existing(conn: &mut PgConnection, given: &[&GivenEntry]) -> sqlx::Result<Vec<ExistingEntry>> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"select g.number as "number!", k.title as "title!", k.tags as "tags!", k.body as "body!",
                  greatest(case when k.origin = 'manual' then k.created_at end, k.edited_at) as by_hand_at
           from unnest($1::text[], $2::text[], $3::text[]) with ordinality as g(repo_id, title, tags, number)
           cross join lateral (select array(select jsonb_array_elements_text(g.tags::jsonb)) as tags offset 0) t
           -- Each way has an index; `or` has none.
           cross join lateral (
             select id
             from knowledge same
             where same.repo_id = g.repo_id and md5(lower(same.title)) = md5(lower(g.title)) and lower(same.title) = lower(g.title)
               and same.released_at is not null and same.pruned_at is null and same.superseded_by is null
             union
             select id
             from knowledge near
             where near.tags && t.tags and near.repo_id = g.repo_id
               and near.released_at is not null and near.pruned_at is null and near.superseded_by is null
               and (strpos(lower(near.title), lower(g.title)) > 0 or strpos(lower(g.title), lower(near.title)) > 0)
           ) o
           cross join lateral (select * from knowledge where id = o.id limit 1) k
           order by g.number, k.id"#,
        &given.iter().map(|g| g.repo_id.clone()).collect::<Vec<_>>(),
        &given.iter().map(|g| g.title.clone()).collect::<Vec<_>>(),
        &given.iter().map(|g| super::json(&g.tags)).collect::<Vec<_>>(),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .filter_map(|row| {
            Some(ExistingEntry {
                beside: usize::try_from(row.number - 1).ok()?,
                title: row.title,
                tags: row.tags,
                body: row.body,
                by_hand_at: row.by_hand_at,
            })
        })
        .collect())
}
