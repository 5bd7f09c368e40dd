//! The index of the memory: analysed entries by their keys, and counts of keys (SPEC 6.5).

use std::collections::HashMap;

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::recall::{Analysed, Doc, Kind, Posting, Scope, Stats};

#[derive(Debug, Clone)]
pub struct NewDoc {
    /// Its number, when its row already has one.
    pub number: Option<i64>,
    pub entry: Uuid,
    pub repo_id: String,
    pub kind: Kind,
    pub created_at: OffsetDateTime,
    pub words: Analysed,
}

/// A Postgres array as text, since an array of rows cannot contain arrays.
pub(in crate::store) fn array<T: std::fmt::Display>(values: impl IntoIterator<Item = T>) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    format!("{{{}}}", values.join(","))
}

/// Indexes entries; skips entries that are indexed. Entries with a number are counted and wait to be merged.
/// The caller holds their memories ([`super::library::lock`]), so that nobody indexes the same entries at
/// once.
pub async fn insert(conn: &mut PgConnection, docs: &[NewDoc]) -> sqlx::Result<()> {
    if docs.is_empty() {
        return Ok(());
    }
    let lengths = |of: fn(&Analysed) -> &Vec<u32>| -> Vec<i32> {
        let len = |doc: &NewDoc| i32::try_from(of(&doc.words).len()).unwrap_or(i32::MAX);
        docs.iter().map(len).collect()
    };
    sqlx::query!(
        "with given as materialized (
           select u.*, coalesce(number, nextval('memory_docs_id_seq')) as id
           from unnest($1::uuid[], $2::text[], $3::memory_kind[], $4::timestamptz[], $5::bytea[], $6::int[], $7::int[], $8::int[],
                       $9::int[], $10::bigint[])
             as u(entry, repo_id, kind, created_at, words, title, body, place, tags, number)
           where number is not null or entry <> all(array(select entry from memory_entries where entry = any($1)))
         ), learned as (
           update learnings l
           set doc_id = given.id, indexed_at = now(), words = given.words
           from given
           where l.id = given.entry and given.kind = 'learning' and given.number is null
         ), docs as (
           insert into memory_docs (id, entry, created_at, repo_id, kind, words)
           overriding system value
           select id, entry, created_at, repo_id, kind, words from given where kind <> 'learning'
         ), unmerged as (
           insert into memory_unmerged (docs) select array_agg(id order by id) from given having count(*) > 0
         )
         insert into memory_stats as s (repo_id, kind, entries, title_words, body_words, place_words, tag_words)
         select repo_id, kind, count(*), sum(title), sum(body), sum(place), sum(tags)
         from given
         group by repo_id, kind
         order by repo_id, kind
         on conflict (repo_id, kind) do update
         set entries = s.entries + excluded.entries, title_words = s.title_words + excluded.title_words,
             body_words = s.body_words + excluded.body_words, place_words = s.place_words + excluded.place_words,
             tag_words = s.tag_words + excluded.tag_words",
        &docs.iter().map(|doc| doc.entry).collect::<Vec<_>>(),
        &docs.iter().map(|doc| doc.repo_id.clone()).collect::<Vec<_>>(),
        &docs.iter().map(|doc| doc.kind).collect::<Vec<_>>() as &[Kind],
        &docs.iter().map(|doc| doc.created_at).collect::<Vec<_>>(),
        &docs.iter().map(|doc| doc.words.pack()).collect::<Vec<_>>(),
        &lengths(|words| &words.title),
        &lengths(|words| &words.body),
        &lengths(|words| &words.place),
        &lengths(|words| &words.tags),
        &docs.iter().map(|doc| doc.number).collect::<Vec<_>>() as &[Option<i64>],
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes entries from the index. [`super::postings::merge`] corrects the counts of their keys later.
pub async fn remove(conn: &mut PgConnection, entries: &[Uuid]) -> sqlx::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    // Waiting entries first. This waits for an entry that is being merged, which then is in blocks.
    let unmerged = super::postings::forget(conn, entries).await?;
    let gone = sqlx::query_as!(
        Row,
        r#"with learned as (
             select id, doc_id, created_at, repo_id, words
             from learnings
             where id = any($1) and doc_id is not null
             order by id
             for update
           ), unlisted as (
             update learnings l
             set doc_id = null, indexed_at = null, words = null
             from learned
             where l.id = learned.id
           ), docs as (
             delete from memory_docs where entry = any($1) returning id, entry, created_at, repo_id, kind, words
           ), gone as (
             select * from docs
             union all
             select doc_id, id, created_at, repo_id, 'learning', words from learned
           ), vectors as (
             delete from memory_vectors where doc_id in (select id from gone)
           )
           select id as "id!", entry as "entry!", created_at as "created_at!", repo_id as "repo_id!", kind as "kind!: Kind",
                  words as "words!"
           from gone"#,
        entries,
    )
    .fetch_all(&mut *conn)
    .await?;
    let (gone, waited): (Vec<Row>, Vec<Row>) = gone.into_iter().partition(|row| !unmerged.contains(&row.id));
    discount(conn, gone.iter().chain(&waited)).await?;
    let gone: Vec<Indexed> = gone.into_iter().map(Row::indexed).collect();
    super::postings::note_removed(conn, &gone).await
}

/// Subtracts removed entries from the statistics of their memories.
async fn discount(conn: &mut PgConnection, gone: impl Iterator<Item = &Row>) -> sqlx::Result<()> {
    let (mut repos, mut kinds) = (Vec::new(), Vec::new());
    let mut lengths: [Vec<i32>; 4] = Default::default();
    for row in gone {
        repos.push(row.repo_id.clone());
        kinds.push(row.kind);
        let words = row.words();
        let fields = [&words.title, &words.body, &words.place, &words.tags];
        for (lengths, field) in lengths.iter_mut().zip(fields) {
            lengths.push(i32::try_from(field.len()).unwrap_or(i32::MAX));
        }
    }
    let [title, body, place, tags] = lengths;
    sqlx::query!(
        "with sums as (
           select repo_id, kind, count(*) as entries, sum(title) as title, sum(body) as body, sum(place) as place, sum(tags) as tags
           from unnest($1::text[], $2::memory_kind[], $3::int[], $4::int[], $5::int[], $6::int[])
             as gone(repo_id, kind, title, body, place, tags)
           group by repo_id, kind
           order by repo_id, kind
         )
         update memory_stats s
         set entries = s.entries - sums.entries, title_words = s.title_words - sums.title, body_words = s.body_words - sums.body,
             place_words = s.place_words - sums.place, tag_words = s.tag_words - sums.tags
         from sums
         where s.repo_id = sums.repo_id and s.kind = sums.kind",
        &repos,
        &kinds as &[Kind],
        &title,
        &body,
        &place,
        &tags,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[derive(Debug)]
pub(in crate::store) struct Row {
    pub id: i64,
    pub entry: Uuid,
    pub created_at: OffsetDateTime,
    pub repo_id: String,
    pub kind: Kind,
    /// Packed.
    pub words: Vec<u8>,
}

/// The position of an entry in the index.
#[derive(Debug, Clone)]
pub struct Indexed {
    pub id: i64,
    /// Its posting in the blocks of its keys.
    pub posting: Posting,
    /// In order.
    pub keys: Vec<i64>,
}

impl Row {
    pub(in crate::store) fn indexed(self) -> Indexed {
        let scope = Scope::new(&self.repo_id, self.kind);
        let (id, doc) = self.doc();
        Indexed {
            id,
            posting: Posting::new(id, doc.created_at),
            keys: doc.words.keys(scope),
        }
    }

    fn doc(self) -> (i64, Doc) {
        let doc = Doc {
            entry: self.entry,
            created_at: self.created_at,
            words: self.words(),
        };
        (self.id, doc)
    }

    /// Its words; empty when the row holds something else, which no query finds then.
    fn words(&self) -> Analysed {
        Analysed::unpack(&self.words).unwrap_or_default()
    }
}

/// Statistics of a whole memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryFacts {
    pub stats: Stats,
    /// The calibrated floor; `None` until there are enough entries.
    pub floor: Option<f64>,
}

/// The memories of these repositories, each with its counts of the `keys`.
pub async fn lookup(
    conn: &mut PgConnection,
    repos: &[String],
    keys: &[i64],
) -> sqlx::Result<HashMap<(String, Kind), MemoryFacts>> {
    let rows = sqlx::query!(
        r#"select repo_id as "repo_id?", kind as "kind?: Kind", entries as "entries!", title_words, body_words,
                  place_words, tag_words, floor, null::bigint as key
           from memory_stats
           where repo_id = any($1) and entries > 0
           union all
           select null, null, newest.stands, null, null, null, null, null, k.key
           from unnest($2::bigint[]) as k(key)
           cross join lateral (
             select stands from memory_postings where key = k.key order by block desc limit 1
           ) newest"#,
        repos,
        keys,
    )
    .fetch_all(conn)
    .await?;
    let mut memories = HashMap::new();
    let mut frequency = HashMap::new();
    for row in rows {
        if let (Some(repo), Some(kind)) = (row.repo_id, row.kind) {
            let words = [row.title_words, row.body_words, row.place_words, row.tag_words];
            let stats = Stats {
                entries: row.entries,
                words: words.map(|words| words.unwrap_or(0)),
                frequency: HashMap::new(),
            };
            memories.insert(
                (repo, kind),
                MemoryFacts {
                    stats,
                    floor: row.floor,
                },
            );
        } else if let Some(key) = row.key {
            frequency.insert(key, row.entries);
        }
    }
    // Keys are scoped, so nobody looks up those of other memories.
    for memory in memories.values_mut() {
        memory.stats.frequency.clone_from(&frequency);
    }
    Ok(memories)
}

/// The indexed entries with these numbers, without entries that were removed meanwhile.
pub async fn docs(conn: &mut PgConnection, ids: &[i64]) -> sqlx::Result<Vec<(i64, Doc)>> {
    Ok(rows(conn, ids).await?.into_iter().map(Row::doc).collect())
}

/// Index positions of these entries, without entries that were removed meanwhile.
pub async fn indexed(conn: &mut PgConnection, ids: &[i64]) -> sqlx::Result<Vec<Indexed>> {
    Ok(rows(conn, ids).await?.into_iter().map(Row::indexed).collect())
}

async fn rows(conn: &mut PgConnection, ids: &[i64]) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"select id as "id!", entry as "entry!", created_at as "created_at!", repo_id as "repo_id!", kind as "kind!: Kind",
                  words as "words!"
           from memory_entries
           where id = any($1)"#,
        ids,
    )
    .fetch_all(conn)
    .await
}

/// Memories to calibrate: they grew by a quarter since the last calibration, have at least `least` entries,
/// and have counted all but a twentieth of their words. Without counts every word is rare, and there would be
/// no floor.
pub async fn uncalibrated(conn: &mut PgConnection, least: i64) -> sqlx::Result<Vec<(String, Kind)>> {
    let rows = sqlx::query!(
        r#"with waiting as materialized (
             select d.repo_id, d.kind, count(*) as entries
             from memory_unmerged u
             cross join unnest(u.docs) as of_batch(id)
             cross join lateral (select repo_id, kind from memory_entries where id = of_batch.id limit 1) d
             group by d.repo_id, d.kind
           )
           select repo_id, kind as "kind: Kind"
           from memory_stats s
           where entries >= $1 and entries >= calibrated_at_entries * 5 / 4
             and entries >= 20 * coalesce((
               select w.entries from waiting w where w.repo_id = s.repo_id and w.kind = s.kind
             ), 0)
           order by entries
           limit 10"#,
        least,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.repo_id, row.kind)).collect())
}

/// A sample of a memory's entries for calibration, spread evenly over the newer two thirds.
pub async fn sample(conn: &mut PgConnection, repo_id: &str, kind: Kind, size: i64) -> sqlx::Result<Vec<Doc>> {
    let rows = sqlx::query!(
        r#"with all_of_kind as (
             select id, created_at
             from memory_docs
             where repo_id = $1 and kind = $2
             union all
             select doc_id, created_at
             from learnings
             where repo_id = $1 and $2 = 'learning' and doc_id is not null and released_at is not null and pruned_at is null
               and superseded_by is null
           ), numbered as (
             select id, row_number() over (order by created_at, id) as number, count(*) over () as entries
             from all_of_kind
           )
           select d.entry as "entry!", d.created_at as "created_at!", d.words as "words!"
           from numbered n
           cross join lateral (select * from memory_entries where id = n.id limit 1) d
           where n.number > n.entries / 3 and n.number % greatest(1, n.entries * 2 / 3 / $3) = 0
           order by n.number desc
           limit $3"#,
        repo_id,
        kind as Kind,
        size,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let words = Analysed::unpack(&row.words).unwrap_or_default();
            Doc {
                entry: row.entry,
                created_at: row.created_at,
                words: Analysed {
                    title: words.title,
                    body: words.body,
                    names: words.names,
                    ..Analysed::default()
                },
            }
        })
        .collect())
}

pub async fn keep_floor(
    conn: &mut PgConnection,
    repo_id: &str,
    kind: Kind,
    floor: Option<f64>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update memory_stats
         set floor = $3, calibrated_at_entries = entries
         where repo_id = $1 and kind = $2",
        repo_id,
        kind as Kind,
        floor,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A journal entry of an ended run, with its failure report, to be indexed.
#[derive(Debug, Clone)]
pub struct EndedEntry {
    pub run: Uuid,
    pub dispatch: Uuid,
    pub repo_id: String,
    pub title: String,
    pub journal: String,
    pub failure: Option<String>,
    pub files_changed: Vec<String>,
    pub settled_at: OffsetDateTime,
}

#[derive(Debug, Clone)]
pub struct EndedRun {
    pub id: Uuid,
    pub repo_id: String,
}

/// Ended runs without live sessions whose journal is not indexed yet.
pub async fn ended_runs(conn: &mut PgConnection) -> sqlx::Result<Vec<EndedRun>> {
    sqlx::query_as!(
        EndedRun,
        "select r.id, f.repo_id
         from runs r
         join features f on f.id = r.feature_id
         where r.ended_at is not null and r.journal_indexed_at is null
           and not exists (
             select from dispatches d where d.feature_id = r.feature_id and d.state = 'live' and d.run_id = r.id
           )
         order by r.ended_at
         limit 20"
    )
    .fetch_all(conn)
    .await
}

/// Journal entries of these runs that are not indexed yet, at most `most`. Marks runs without any. The caller
/// holds their repositories ([`super::library::lock`]), so that nobody revokes the entries meanwhile.
pub async fn ended_entries(
    conn: &mut PgConnection,
    runs: &[Uuid],
    most: i64,
) -> sqlx::Result<Vec<EndedEntry>> {
    let entries = sqlx::query_as!(
        EndedEntry,
        r#"select r.id as run, d.id as dispatch, f.repo_id, x.title, d.journal as "journal!",
                  fr.what_tried || E'\n' || fr.why_failed as failure, coalesce(d.files_changed, '{}') as "files_changed!",
                  coalesce(d.settled_at, d.claimed_at) as "settled_at!"
           from runs r
           join features f on f.id = r.feature_id
           join dispatches d on d.feature_id = r.feature_id and d.run_id = r.id
           join task_texts x on x.task_id = d.task_id
           left join failure_reports fr on fr.dispatch_id = d.id
           where r.id = any($1) and d.journal is not null and d.journal_doubted_by is null and (d.journal <> '' or fr.dispatch_id is not null)
             and not exists (select from memory_docs m where m.entry = d.id)
           limit $2"#,
        runs,
        most,
    )
    .fetch_all(&mut *conn)
    .await?;
    let whole = i64::try_from(entries.len()).unwrap_or(i64::MAX) < most;
    let open: Vec<Uuid> = entries.iter().map(|entry| entry.run).collect();
    if whole {
        sqlx::query!(
            "update runs set journal_indexed_at = now() where id = any($1) and id <> all($2)",
            runs,
            &open,
        )
        .execute(conn)
        .await?;
    }
    Ok(entries)
}
