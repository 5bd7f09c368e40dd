//! The index of keys: blocks of postings, and counts of keys (SPEC 6.5). One writer at a time appends waiting
//! entries to it; until then queries read these entries separately.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::recall::{Kind, Posting};
use crate::store::memory::index::{self, Indexed};

/// Postings of a full block. Eight bytes each: a block stays in its page.
const BLOCK: i32 = 128;
/// Newest blocks of a key to retain: twice the number that a query reads. A key with more entries says
/// little.
const RETAINED_BLOCKS: i32 = 32;
/// Newest waiting entries that each query reads.
const FRESH: i64 = 500;
/// Removed entries that one merge takes out of the blocks.
const REMOVED: i64 = 500;

/// Postings by key.
pub type Postings = HashMap<i64, Vec<Posting>>;

/// A memory with more entries takes so long to query that its kinds are queried in parallel.
const LARGE: i64 = 20_000;

/// This process's cache of waiting entries, whose keys do not change, so that not every claim reads them.
/// Also caches the size of the largest memory.
#[derive(Debug, Default)]
pub struct Tail {
    known: Mutex<Arc<HashMap<i64, Arc<Indexed>>>>,
    largest: AtomicI64,
}

impl Tail {
    /// Records the number of entries in a part of a memory.
    pub fn note_entries(&self, entries: i64) {
        self.largest.fetch_max(entries, Ordering::Relaxed);
    }

    /// Whether a large memory was queried before.
    pub fn is_large(&self) -> bool {
        self.largest.load(Ordering::Relaxed) > LARGE
    }

    fn known(&self) -> Arc<HashMap<i64, Arc<Indexed>>> {
        Arc::clone(&self.known.lock())
    }

    fn keep(&self, known: HashMap<i64, Arc<Indexed>>) {
        *self.known.lock() = Arc::new(known);
    }
}

/// The newest waiting entries, from `tail` where it has them.
pub async fn fresh(conn: &mut PgConnection, tail: &Tail) -> sqlx::Result<Vec<Arc<Indexed>>> {
    let before = tail.known();
    let known: Vec<i64> = before.keys().copied().collect();
    let rows = sqlx::query!(
        r#"with newest as materialized (
             select id, docs from memory_unmerged order by id desc limit $1
           ), waiting as materialized (
             select docs
             from (
               select docs, sum(cardinality(docs)) over (order by id desc) - cardinality(docs) as newer from newest
             ) counted
             where newer < $1
           ), unknown as materialized (
             select doc
             from waiting cross join unnest(docs) as of_batch(doc)
             where doc not in (select unnest($2::bigint[]))
             order by doc desc
             limit $1
           )
           select docs, null::bigint as "id?", null::uuid as "entry?", null::timestamptz as "created_at?", null as "repo_id?",
                  null::memory_kind as "kind?: Kind", null::bytea as "words?"
           from waiting
           union all
           select null, d.id, d.entry, d.created_at, d.repo_id, d.kind, d.words
           from unknown
           cross join lateral (select * from memory_entries where id = unknown.doc limit 1) d"#,
        FRESH,
        &known,
    )
    .fetch_all(conn)
    .await?;
    let mut waiting: Vec<i64> = Vec::new();
    let mut fresh = HashMap::new();
    for row in rows {
        if let Some(docs) = row.docs {
            waiting.extend(docs);
            continue;
        }
        let new = (|| {
            Some(index::Row {
                id: row.id?,
                entry: row.entry?,
                created_at: row.created_at?,
                repo_id: row.repo_id?,
                kind: row.kind?,
                words: row.words?,
            })
        })();
        if let Some(new) = new {
            fresh.insert(new.id, Arc::new(new.indexed()));
        }
    }
    // An entry that is neither cached nor found is being removed.
    let cached = newest(waiting).into_iter();
    fresh.extend(cached.filter_map(|doc| Some((doc, Arc::clone(before.get(&doc)?)))));
    let all = fresh.values().cloned().collect();
    tail.keep(fresh);
    Ok(all)
}

fn newest(mut waiting: Vec<i64>) -> Vec<i64> {
    waiting.sort_unstable_by_key(|&doc| Reverse(doc));
    waiting.truncate(usize::try_from(FRESH).unwrap_or(usize::MAX));
    waiting
}

/// The newest postings of keys, at most `blocks` blocks of each. The caller has read `fresh` before.
pub async fn read(
    conn: &mut PgConnection,
    keys: &[i64],
    blocks: i64,
    fresh: &[Arc<Indexed>],
) -> sqlx::Result<Postings> {
    if keys.is_empty() {
        return Ok(Postings::new());
    }
    let rows = sqlx::query!(
        r#"select p.key as "key!", p.entries as "entries!"
           from unnest($1::bigint[]) as k(key)
           cross join lateral (
             select key, entries from memory_postings where key = k.key order by block desc limit $2
           ) p"#,
        keys,
        blocks,
    )
    .fetch_all(conn)
    .await?;
    let mut postings = Postings::new();
    for row in rows {
        let of_key = postings.entry(row.key).or_default();
        of_key.extend(row.entries.into_iter().map(Posting));
    }
    add_fresh(&mut postings, keys, fresh);
    Ok(postings)
}

/// The newest postings of keys, with the number of entries of each key. The caller has read `fresh` before.
pub async fn read_counted(
    conn: &mut PgConnection,
    keys: &[i64],
    blocks: i64,
    fresh: &[Arc<Indexed>],
) -> sqlx::Result<(Postings, HashMap<i64, i64>)> {
    if keys.is_empty() {
        return Ok(Default::default());
    }
    let rows = sqlx::query!(
        r#"select p.key as "key!", p.block as "block!", p.stands as "stands!", p.entries as "entries!"
           from unnest($1::bigint[]) as k(key)
           cross join lateral (
             select key, block, stands, entries from memory_postings where key = k.key order by block desc limit $2
           ) p"#,
        keys,
        blocks,
    )
    .fetch_all(conn)
    .await?;
    let mut postings = Postings::new();
    let mut newest: HashMap<i64, (i32, i64)> = HashMap::new();
    for row in rows {
        let of_key = newest.entry(row.key).or_insert((row.block, row.stands));
        *of_key = (*of_key).max((row.block, row.stands));
        let of_key = postings.entry(row.key).or_default();
        of_key.extend(row.entries.into_iter().map(Posting));
    }
    add_fresh(&mut postings, keys, fresh);
    let counts = newest.into_iter().map(|(key, (_, stands))| (key, stands));
    Ok((postings, counts.collect()))
}

/// Adds the postings of waiting entries, except those that were merged between the two reads.
fn add_fresh(postings: &mut Postings, keys: &[i64], fresh: &[Arc<Indexed>]) {
    for key in keys {
        let mut waiting = fresh
            .iter()
            .filter(|one| one.keys.binary_search(key).is_ok())
            .map(|one| one.posting)
            .peekable();
        if waiting.peek().is_none() {
            continue;
        }
        let of_key = postings.entry(*key).or_default();
        of_key.sort_unstable();
        let merged = of_key.len();
        for posting in waiting {
            if of_key[..merged].binary_search(&posting).is_err() {
                of_key.push(posting);
            }
        }
    }
}

/// Appends at most `most` waiting entries to the blocks of their keys, and takes removed ones out. Returns
/// the sum of both numbers. One writer at a time does this, and no query waits for it.
pub async fn merge(conn: &mut PgConnection, most: i64) -> sqlx::Result<u64> {
    sqlx::query!("select pg_advisory_xact_lock(hashtextextended('memory-index', 0))")
        .execute(&mut *conn)
        .await?;
    Ok(append(conn, most).await? + take_out(conn).await?)
}

async fn append(conn: &mut PgConnection, most: i64) -> sqlx::Result<u64> {
    let taken = take_unmerged(conn, most).await?;
    if taken.is_empty() {
        return Ok(0);
    }
    let (mut keys, mut postings) = (Vec::new(), Vec::new());
    for one in index::indexed(conn, &taken).await? {
        postings.extend(one.keys.iter().map(|_| one.posting.0));
        keys.extend(one.keys);
    }
    append_postings(conn, &keys, &postings).await?;
    Ok(taken.len() as u64)
}

async fn take_unmerged(conn: &mut PgConnection, most: i64) -> sqlx::Result<Vec<i64>> {
    let taken = sqlx::query_scalar!(
        r#"-- Whoever removes an entry that still waits holds its batch, and nobody waits for them here.
           delete from memory_unmerged
           where id = any(array(
             select id
             from (
               select id, sum(cardinality(docs)) over (order by id) - cardinality(docs) as before
               from (select id, docs from memory_unmerged order by id limit $1 for update skip locked) oldest
             ) counted
             where before < $1
           ))
           returning docs"#,
        most,
    )
    .fetch_all(conn)
    .await?;
    Ok(taken.concat())
}

async fn append_postings(conn: &mut PgConnection, keys: &[i64], postings: &[i64]) -> sqlx::Result<()> {
    sqlx::query!(
        r#"with new as materialized (
             select key, array_agg(posting order by posting) as entries
             from unnest($1::bigint[], $2::bigint[]) as given(key, posting)
             group by key
           ), placed as (
             -- The last block is filled before another begins.
             select new.key, e.posting, (last.block * $3 + last.used + e.number - 1) / $3 as block, last.stands + e.number as stands
             from new
             cross join lateral (
               select coalesce(max(l.block), 0)::bigint as block, coalesce(max(cardinality(l.entries)), 0) as used,
                      coalesce(max(l.stands), 0) as stands
               from (
                 select block, entries, stands from memory_postings p where p.key = new.key order by block desc limit 1
               ) l
             ) last
             cross join lateral unnest(new.entries) with ordinality as e(posting, number)
           ), appended as (
             insert into memory_postings as p (key, block, entries, stands)
             select key, block::int, array_agg(posting order by posting), max(stands)
             from placed
             group by key, block
             order by key, block
             on conflict (key, block) do update set entries = p.entries || excluded.entries, stands = excluded.stands
             returning p.key, p.block
           )
           delete from memory_postings
           where ctid = any(array(
             select o.ctid
             from (select key, max(block) as block from appended group by key having max(block) >= $4) a
             cross join lateral (
               select ctid from memory_postings where key = a.key and block <= a.block - $4 order by block
             ) o
           ))"#,
        keys,
        postings,
        i64::from(BLOCK),
        RETAINED_BLOCKS,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records removed entries that are in blocks, for [`merge`] to take out.
pub(in crate::store) async fn note_removed(conn: &mut PgConnection, gone: &[Indexed]) -> sqlx::Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "insert into memory_removed (doc_id, posting, keys)
         select doc_id, posting, keys::bigint[]
         from unnest($1::bigint[], $2::bigint[], $3::text[]) as gone(doc_id, posting, keys)",
        &gone.iter().map(|one| one.id).collect::<Vec<_>>(),
        &gone.iter().map(|one| one.posting.0).collect::<Vec<_>>(),
        &gone.iter().map(|one| index::array(&one.keys)).collect::<Vec<_>>(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes the waiting ones of these entries, and returns their numbers. Waits for an entry that is being
/// merged.
pub(in crate::store) async fn forget(conn: &mut PgConnection, entries: &[Uuid]) -> sqlx::Result<Vec<i64>> {
    let batches = sqlx::query!(
        "select id, docs
         from memory_unmerged
         where docs && array(select id from memory_entries where entry = any($1))
         order by id
         for update",
        entries,
    )
    .fetch_all(&mut *conn)
    .await?;
    if batches.is_empty() {
        return Ok(Vec::new());
    }
    // Read after the wait, like the batches.
    let leaving = sqlx::query_scalar!(
        r#"select id as "id!" from memory_entries where entry = any($1)"#,
        entries
    )
    .fetch_all(&mut *conn)
    .await?;
    let leaving: HashSet<i64> = leaving.into_iter().collect();
    let waited = batches.iter().flat_map(|batch| batch.docs.iter().copied());
    let unmerged: Vec<i64> = waited.filter(|doc| leaving.contains(doc)).collect();
    sqlx::query!(
        "with emptied as (
           delete from memory_unmerged where id = any($1) and docs <@ $2
         )
         update memory_unmerged
         set docs = array(select doc from unnest(docs) as doc where doc <> all($2) order by doc)
         where id = any($1) and not docs <@ $2",
        &batches.iter().map(|batch| batch.id).collect::<Vec<_>>(),
        &unmerged,
    )
    .execute(conn)
    .await?;
    Ok(unmerged)
}

async fn take_out(conn: &mut PgConnection) -> sqlx::Result<u64> {
    let gone = sqlx::query!(
        r#"with gone as materialized (
             delete from memory_removed
             where doc_id = any(array(
               select doc_id from memory_removed order by doc_id limit $1
             ))
             returning posting, keys
           ), less as materialized (
             select key, array_agg(posting) as entries, count(*) as n
             from gone cross join unnest(gone.keys) as k(key)
             group by key
           ), touched as materialized (
             -- How often a key stands counts in its newest block, whichever blocks the entries leave.
             select p.ctid, less.entries, case when p.block = newest.block then less.n else 0 end as fewer
             from less
             cross join lateral (
               select block from memory_postings where key = less.key order by block desc limit 1
             ) newest
             cross join lateral (
               select ctid, block, entries from memory_postings where key = less.key order by block
             ) p
             where p.block = newest.block or p.entries && less.entries
           ), emptied as (
             update memory_postings p
             set stands = p.stands - touched.fewer,
                 entries = array(select e from unnest(p.entries) as e where e <> all(touched.entries) order by e)
             from touched
             where p.ctid = touched.ctid
           )
           select (select count(*) from gone) as "gone!", array(select key from less) as "keys!""#,
        REMOVED,
    )
    .fetch_one(&mut *conn)
    .await?;
    if gone.gone > 0 {
        sqlx::query!(
            "delete from memory_postings p
             where key = any($1) and entries = '{}'
               and (stands <= 0 or block < (select max(block) from memory_postings newest where newest.key = p.key))",
            &gone.keys,
        )
        .execute(conn)
        .await?;
    }
    Ok(u64::try_from(gone.gone).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn fresh_entries_are_found_once() {
        let at = OffsetDateTime::UNIX_EPOCH;
        let fresh = [Arc::new(Indexed {
            id: 5,
            posting: Posting::new(5, at),
            keys: vec![1, 2, 3],
        })];
        let mut postings = Postings::from([(1, vec![Posting::new(5, at)])]);
        add_fresh(&mut postings, &[1, 2], &fresh);
        assert_eq!(
            postings,
            Postings::from([(1, vec![Posting::new(5, at)]), (2, vec![Posting::new(5, at)])])
        );
    }
}
