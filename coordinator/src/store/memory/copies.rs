//! Entries that say the same: witnesses of one entry, and copies of a revoked one (SPEC 6.7, 6.8).

use std::collections::HashMap;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::recall::{Arrival, Kind, Replaced};

#[derive(Debug, Clone)]
pub struct Text {
    pub id: Uuid,
    pub text: String,
}

/// A new entry, and a live one that may say the same.
struct Pair {
    new: Uuid,
    old: Uuid,
    text: String,
}

/// Bands of new entries, with the entry and the repository of each.
#[derive(Default)]
struct Bands {
    ids: Vec<Uuid>,
    named: Vec<Uuid>,
    repos: Vec<String>,
    bands: Vec<i64>,
}

/// For each new entry, live ones of its kind and repository that share a band with it, oldest first, at most
/// 16.
pub async fn alike(
    conn: &mut PgConnection,
    kind: Kind,
    arrivals: &[Arrival],
) -> sqlx::Result<HashMap<Uuid, Vec<Text>>> {
    if arrivals.is_empty() {
        return Ok(HashMap::new());
    }
    let mut given = Bands {
        ids: arrivals.iter().map(|one| one.id).collect(),
        ..Bands::default()
    };
    for one in arrivals {
        for band in &one.bands {
            given.named.push(one.id);
            given.repos.push(one.repo_id.clone());
            given.bands.push(*band);
        }
    }
    let pairs = match kind {
        Kind::Knowledge => knowledge_with(conn, &given).await?,
        _ => learnings_with(conn, &given).await?,
    };
    let mut alike: HashMap<Uuid, Vec<Text>> = HashMap::new();
    for Pair { new, old, text } in pairs {
        alike.entry(new).or_default().push(Text { id: old, text });
    }
    Ok(alike)
}

async fn knowledge_with(conn: &mut PgConnection, given: &Bands) -> sqlx::Result<Vec<Pair>> {
    sqlx::query_as!(
        Pair,
        r#"with new as materialized (
                 select id, repo_id, array_agg(band) as bands
                 from unnest($1::uuid[], $2::text[], $3::bigint[]) as given(id, repo_id, band)
                 group by id, repo_id
               )
               select n.id as "new!", o.id as "old!", o.title || ' ' || o.body as "text!"
               from new n
               cross join lateral (
                 select id, title, body
                 from knowledge old
                 where old.bands && n.bands and old.repo_id = n.repo_id and old.id <> all($4)
                   and old.origin in ('attempt', 'distilled') and old.released_at is not null and old.pruned_at is null
                   and old.superseded_by is null
                 order by old.id
                 limit 16
               ) o
               order by n.id, o.id"#,
        &given.named,
        &given.repos,
        &given.bands,
        &given.ids,
    )
    .fetch_all(conn)
    .await
}

async fn learnings_with(conn: &mut PgConnection, given: &Bands) -> sqlx::Result<Vec<Pair>> {
    sqlx::query_as!(
        Pair,
        r#"with new as materialized (
                 select id, repo_id, array_agg(band) as bands
                 from unnest($1::uuid[], $2::text[], $3::bigint[]) as given(id, repo_id, band)
                 group by id, repo_id
               )
               select n.id as "new!", o.id as "old!", o.title || ' ' || o.body as "text!"
               from new n
               cross join lateral (
                 select id, title, body
                 from learnings old
                 where old.bands && n.bands and old.repo_id = n.repo_id and old.id <> all($4)
                   and old.origin in ('attempt', 'distilled') and old.released_at is not null and old.pruned_at is null
                   and old.superseded_by is null
                 order by old.id
                 limit 16
               ) o
               order by n.id, o.id"#,
        &given.named,
        &given.repos,
        &given.bands,
        &given.ids,
    )
    .fetch_all(conn)
    .await
}

/// Links entries to the entries that replace them.
pub async fn stand_for(conn: &mut PgConnection, kind: Kind, replaced: &[Replaced]) -> sqlx::Result<()> {
    if replaced.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = replaced.iter().map(|one| one.entry).collect();
    let by: Vec<Uuid> = replaced.iter().map(|one| one.by).collect();
    let are_witnesses: Vec<bool> = replaced.iter().map(|one| one.is_witness).collect();
    if kind == Kind::Knowledge {
        sqlx::query!(
            "update knowledge k set superseded_by = r.by, is_witness = r.is_witness
             from unnest($1::uuid[], $2::uuid[], $3::bool[]) as r(id, by, is_witness)
             where k.id = r.id",
            &ids,
            &by,
            &are_witnesses,
        )
        .execute(conn)
        .await?;
    } else {
        sqlx::query!(
            "update learnings l set superseded_by = r.by, is_witness = r.is_witness
             from unnest($1::uuid[], $2::uuid[], $3::bool[]) as r(id, by, is_witness)
             where l.id = r.id",
            &ids,
            &by,
            &are_witnesses,
        )
        .execute(conn)
        .await?;
    }
    Ok(())
}

/// Texts to revoke: those of the entries, and others that the dispatches wrote.
pub async fn revoked_texts(
    conn: &mut PgConnection,
    entries: &[Uuid],
    dispatches: &[Uuid],
) -> sqlx::Result<Vec<Text>> {
    sqlx::query_as!(
        Text,
        r#"select id as "id!", title || ' ' || body as "text!" from learnings where id = any($1)
           union all
           select id, title || ' ' || body from knowledge where id = any($1)
           union all
           select dispatch_id, body || ' ' || coalesce(rationale, '') from session_memory
           where dispatch_id = any($2) and kind in ('key_fact', 'decision')
           union all
           select id, journal from dispatches where id = any($2) and journal <> ''"#,
        entries,
        dispatches,
    )
    .fetch_all(conn)
    .await
}

#[derive(Debug, Clone)]
pub struct Written {
    pub id: Uuid,
    pub text: String,
    /// Whether its attempt was shown one of the revoked entries. Others may have read their attempt's journal
    /// or notes.
    pub was_shown: bool,
}

/// Entries of attempts that were shown one of `entries`, or that worked on the feature of `dispatches` after
/// them. Omits entries that are in doubt already.
pub async fn written_after(
    conn: &mut PgConnection,
    entries: &[Uuid],
    dispatches: &[Uuid],
) -> sqlx::Result<Vec<Written>> {
    sqlx::query_as!(
        Written,
        r#"with readers as materialized (
             select id, bool_or(was_shown) as was_shown
             from (
               select dispatch_id as id, true as was_shown from memory_uses where entry = any($1) and left_out is null
               union all
               select d.id, false
               from dispatches source
               join tasks t on t.feature_id = source.feature_id
               cross join lateral (select id from dispatches where task_id = t.id and claimed_at > source.claimed_at) d
               where source.id = any($2)
             ) r
             where id <> all($2)
             group by id
           )
           select l.id as "id!", l.title || ' ' || l.body as "text!", r.was_shown as "was_shown!"
           from readers r join learnings l on l.dispatch_id = r.id
           where l.pruned_at is null and l.doubted_by is null and l.origin in ('attempt', 'distilled')
           union all
           select k.id, k.title || ' ' || k.body, r.was_shown
           from readers r join knowledge k on k.dispatch_id = r.id
           where k.pruned_at is null and k.doubted_by is null and k.origin in ('attempt', 'distilled')
           order by 1"#,
        entries,
        dispatches,
    )
    .fetch_all(conn)
    .await
}

/// Puts entries back into quarantine until a person restores them. Each pair is an entry and the entry that
/// it repeats.
pub async fn doubt(conn: &mut PgConnection, doubted: &[(Uuid, Uuid)]) -> sqlx::Result<()> {
    let (ids, of): (Vec<Uuid>, Vec<Uuid>) = doubted.iter().copied().unzip();
    sqlx::query!(
        "with learned as (
           update learnings l set released_at = null, doubted_by = d.of
           from unnest($1::uuid[], $2::uuid[]) as d(id, of)
           where l.id = d.id
         )
         update knowledge k set released_at = null, doubted_by = d.of
         from unnest($1::uuid[], $2::uuid[]) as d(id, of)
         where k.id = d.id",
        &ids,
        &of,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Journals of attempts that were shown one of `entries`, or that worked on the feature of `dispatches` after
/// them.
pub async fn journals_after(
    conn: &mut PgConnection,
    entries: &[Uuid],
    dispatches: &[Uuid],
) -> sqlx::Result<Vec<Text>> {
    sqlx::query_as!(
        Text,
        r#"with readers as materialized (
             select dispatch_id as id from memory_uses where entry = any($1) and left_out is null
             union
             select d.id
             from dispatches source
             join tasks t on t.feature_id = source.feature_id
             cross join lateral (select id from dispatches where task_id = t.id and claimed_at > source.claimed_at) d
             where source.id = any($2)
           )
           select d.id as "id!", d.journal as "text!"
           from readers r
           cross join lateral (
             select id, journal from dispatches where id = r.id and journal <> '' and journal_doubted_by is null limit 1
           ) d
           where d.id <> all($2)"#,
        entries,
        dispatches,
    )
    .fetch_all(conn)
    .await
}

/// Marks journals that quote revoked texts. Each pair is a journal and the text that it quotes.
pub async fn doubt_journals(conn: &mut PgConnection, doubted: &[(Uuid, Uuid)]) -> sqlx::Result<()> {
    let (ids, of): (Vec<Uuid>, Vec<Uuid>) = doubted.iter().copied().unzip();
    sqlx::query!(
        "update dispatches d set journal_doubted_by = g.of
         from unnest($1::uuid[], $2::uuid[]) as g(id, of)
         where d.id = g.id",
        &ids,
        &of,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A note of a feature's session memory.
#[derive(Debug, Clone)]
pub struct NoteText {
    pub id: i64,
    pub text: String,
}

/// Open decisions and facts that were noted on the features of `dispatches` after them, or by attempts that
/// were shown one of `entries`.
pub async fn notes_after(
    conn: &mut PgConnection,
    entries: &[Uuid],
    dispatches: &[Uuid],
) -> sqlx::Result<Vec<NoteText>> {
    sqlx::query_as!(
        NoteText,
        r#"select n.id as "id!", n.body || ' ' || coalesce(n.rationale, '') as "text!"
           from (select distinct feature_id, min(claimed_at) as since from dispatches where id = any($1) group by feature_id) f
           cross join lateral (
             select id, body, rationale, dispatch_id from session_memory
             where feature_id = f.feature_id and kind in ('decision', 'key_fact') and resolved_at is null and created_at > f.since
           ) n
           where n.dispatch_id <> all($1)
           union
           select n.id, n.body || ' ' || coalesce(n.rationale, '')
           from (select distinct dispatch_id from memory_uses where entry = any($2) and left_out is null) u
           cross join lateral (select id, task_id from dispatches where id = u.dispatch_id limit 1) d
           cross join lateral (
             select id, body, rationale from session_memory
             where task_id = d.task_id and dispatch_id = d.id and kind in ('decision', 'key_fact')
           ) n
           where d.id <> all($1)"#,
        dispatches,
        entries,
    )
    .fetch_all(conn)
    .await
}

pub async fn forget_notes(conn: &mut PgConnection, ids: &[i64]) -> sqlx::Result<()> {
    sqlx::query!("delete from session_memory where id = any($1)", ids)
        .execute(conn)
        .await?;
    Ok(())
}

/// Revoked entries that these dispatches were shown: a session may answer after they were revoked.
pub async fn revoked_and_shown(
    conn: &mut PgConnection,
    dispatches: &[Uuid],
) -> sqlx::Result<Vec<(Uuid, Text)>> {
    let rows = sqlx::query!(
        r#"select u.dispatch_id as "dispatch!", e.id as "id!", e.text as "text!"
           from memory_uses u
           cross join lateral (
             select id, title || ' ' || body as text from learnings where id = u.entry and pruned_because = 'revoked'
             union all
             select id, title || ' ' || body from knowledge where id = u.entry and pruned_because = 'revoked'
           ) e
           where u.dispatch_id = any($1) and u.left_out is null"#,
        dispatches,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let text = Text {
                id: row.id,
                text: row.text,
            };
            (row.dispatch, text)
        })
        .collect())
}
