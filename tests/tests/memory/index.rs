//! The index of memory entries: entries are written first and merged into it later, and it always matches
//! them.

use std::collections::{BTreeMap, BTreeSet};

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::flow::memory::embedding::Meaning;
use ralph_coordinator::flow::memory::library::{self, QueryLine};
use ralph_coordinator::store;
use ralph_tests::harness::World;
use time::OffsetDateTime;
use uuid::Uuid;

use super::unrelated;

/// Names and scores of the entries that answer some questions at that moment.
async fn answers(world: &World, now: OffsetDateTime) -> Vec<(String, f64)> {
    let asked = [
        "sort the invoices by currency",
        "the playlist of a podcast",
        "rename a sensor",
    ]
    .map(|title| QueryLine {
        query_id: title.to_owned(),
        date: now,
        title: title.to_owned(),
        description: String::new(),
    });
    let picked = library::search(&world.db, Meaning::NONE, "", Kind::Learning, &asked, 5)
        .await
        .unwrap();
    let all = picked.iter().flat_map(|picked| {
        picked
            .shown
            .iter()
            .chain(picked.left_out.iter().map(|(one, _)| one))
            .map(|one| (one.entry.external_id.clone().unwrap(), one.score))
    });
    all.collect()
}

/// Merges until nothing waits; returns how many entries it appended and removed.
async fn merge(world: &World, most: i64) -> u64 {
    let mut done = 0;
    loop {
        let mut tx = world.db.begin().await.unwrap();
        let now = store::memory::postings::merge(&mut tx, most).await.unwrap();
        tx.commit().await.unwrap();
        done += now;
        if now == 0 {
            return done;
        }
    }
}

/// Number of keys whose count or postings differ from the entries.
async fn wrong_keys(world: &World) -> usize {
    let mut conn = world.db.acquire().await.unwrap();
    let ids: Vec<i64> = sqlx::query_scalar("select id from memory_entries order by id")
        .fetch_all(&mut *conn)
        .await
        .unwrap();
    let mut expected: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for one in store::memory::index::indexed(&mut conn, &ids).await.unwrap() {
        for key in one.keys {
            expected.entry(key).or_default().push(one.posting.0);
        }
    }
    // The last row is the newest block's count.
    let blocks: Vec<(i64, Vec<i64>, i64)> =
        sqlx::query_as("select key, entries, stands from memory_postings order by key, block")
            .fetch_all(&mut *conn)
            .await
            .unwrap();
    let mut indexed: BTreeMap<i64, (Vec<i64>, i64)> = BTreeMap::new();
    for (key, mut entries, stands) in blocks {
        // An entry that was committed late stands behind later ones.
        entries.sort_unstable();
        let of_key = indexed.entry(key).or_default();
        of_key.0.extend(entries);
        of_key.1 = stands;
    }
    let keys: BTreeSet<i64> = expected.keys().chain(indexed.keys()).copied().collect();
    let mut wrong = 0;
    for key in keys {
        let mut postings = expected.remove(&key).unwrap_or_default();
        postings.sort_unstable();
        let stands = i64::try_from(postings.len()).unwrap();
        wrong += usize::from(indexed.remove(&key) != Some((postings, stands)));
    }
    wrong
}

/// The index before any merge, each entry written by its own transaction.
const UNMERGED: &str = "truncate memory_postings; insert into memory_unmerged (docs) select array[id] from memory_entries order by id";
/// The same, with all entries written by one transaction.
const UNMERGED_TOGETHER: &str = "truncate memory_postings; insert into memory_unmerged (docs) select array_agg(id order by id) from memory_entries";

/// Entries that wait to be appended, and entries that wait to be removed.
async fn waiting(world: &World) -> (i64, i64) {
    sqlx::query_as(
        "select (select coalesce(sum(cardinality(docs)), 0) from memory_unmerged), (select count(*) from memory_removed)",
    )
        .fetch_one(&world.db)
        .await
        .unwrap()
}

async fn entries(world: &World) -> Vec<Uuid> {
    sqlx::query_scalar("select entry from memory_entries order by id")
        .fetch_all(&world.db)
        .await
        .unwrap()
}

async fn run(world: &World, sql: &'static str) {
    sqlx::raw_sql(sql).execute(&world.db).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_matches_the_entries_however_they_are_merged() {
    let world = World::start().await.unwrap();
    let now = OffsetDateTime::now_utc();
    unrelated::fill(&world, 400).await;
    assert_eq!(wrong_keys(&world).await, 0);
    let most: i32 = sqlx::query_scalar("select max(cardinality(entries)) from memory_postings")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(most, 128, "each block is filled before the next one starts");
    let merged = answers(&world, now).await;
    assert!(!merged.is_empty());

    // Unmerged entries are found as well, and the order of merging does not change the index.
    run(
        &world,
        "update memory_postings set entries = '{}';
         insert into memory_unmerged (docs) select array_agg(id) from memory_entries group by id % 7",
    )
    .await;
    assert_eq!(answers(&world, now).await, merged);
    for (before, most) in [(UNMERGED, 37), (UNMERGED_TOGETHER, 37), (UNMERGED, 1_000)] {
        run(&world, "truncate memory_unmerged").await;
        run(&world, before).await;
        assert_eq!(merge(&world, most).await, 400);
        assert_eq!(wrong_keys(&world).await, 0);
        assert_eq!(answers(&world, now).await, merged);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_entries_are_neither_found_nor_counted() {
    let world = World::start().await.unwrap();
    let now = OffsetDateTime::now_utc();
    unrelated::fill(&world, 300).await;
    let leaving: Vec<Uuid> = sqlx::query_scalar("select entry from memory_entries where id % 3 = 0")
        .fetch_all(&world.db)
        .await
        .unwrap();
    let before = answers(&world, now).await;
    let mut conn = world.db.acquire().await.unwrap();
    store::memory::index::remove(&mut conn, &leaving).await.unwrap();
    let gone: Vec<String> = sqlx::query_scalar("select external_id from learnings where id = any($1)")
        .bind(&leaving)
        .fetch_all(&world.db)
        .await
        .unwrap();
    assert!(before.iter().any(|(id, _)| gone.contains(id)));
    // They are not found at once, though the blocks still contain them.
    assert!(
        answers(&world, now)
            .await
            .iter()
            .all(|(id, _)| !gone.contains(id))
    );
    assert!(wrong_keys(&world).await > 0);
    assert_eq!(merge(&world, 1_000).await, leaving.len() as u64);
    assert_eq!(wrong_keys(&world).await, 0);

    // An entry removed before its merge was never counted; the others of its batch are.
    for (before, unmerged) in [(UNMERGED, 195), (UNMERGED_TOGETHER, 190)] {
        run(&world, before).await;
        let all = entries(&world).await;
        store::memory::index::remove(&mut conn, &all[..5]).await.unwrap();
        assert_eq!(waiting(&world).await, (unmerged, 0));
        merge(&world, 1_000).await;
        assert_eq!(wrong_keys(&world).await, 0);
    }
    run(&world, UNMERGED_TOGETHER).await;
    store::memory::index::remove(&mut conn, &entries(&world).await[..1])
        .await
        .unwrap();
    assert_eq!(merge(&world, 1_000).await, 189);

    // A key without entries disappears.
    store::memory::index::remove(&mut conn, &entries(&world).await)
        .await
        .unwrap();
    merge(&world, 1_000).await;
    let keys: i64 = sqlx::query_scalar("select count(*) from memory_postings")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!((keys, waiting(&world).await), (0, (0, 0)));
    drop(conn);
}

/// A transaction that removes or merges an entry may die or take long: the other goes on, and the index is
/// right in the end.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_removed_during_a_merge_is_counted_correctly() {
    let world = World::start().await.unwrap();
    unrelated::fill(&world, 60).await;
    run(&world, UNMERGED).await;
    let all = entries(&world).await;

    // Its removal isn't committed: the others are merged now, and the entry after a rollback.
    let mut leaves = world.db.begin().await.unwrap();
    store::memory::index::remove(&mut leaves, &all[..2])
        .await
        .unwrap();
    assert_eq!(merge(&world, 100).await, 58);
    leaves.rollback().await.unwrap();
    let mut leaves = world.db.begin().await.unwrap();
    store::memory::index::remove(&mut leaves, &all[..1])
        .await
        .unwrap();
    assert_eq!(merge(&world, 100).await, 1);
    leaves.commit().await.unwrap();
    assert_eq!((wrong_keys(&world).await, waiting(&world).await), (0, (0, 0)));

    // A merge is under way: the removal waits for it, and then marks the entry for removal from its blocks.
    run(&world, UNMERGED).await;
    let mut merging = world.db.begin().await.unwrap();
    assert_eq!(
        store::memory::postings::merge(&mut merging, 100).await.unwrap(),
        59
    );
    let db = world.db.clone();
    let entry = all[5];
    let removal = tokio::spawn(async move {
        store::memory::index::remove(&mut db.acquire().await.unwrap(), &[entry])
            .await
            .unwrap();
    });
    let waits = "select exists (select from pg_locks where not granted) and $1::uuid is not null";
    world.until(waits, Uuid::nil()).await.unwrap();
    merging.commit().await.unwrap();
    removal.await.unwrap();
    assert_eq!(waiting(&world).await, (0, 1));
    assert_eq!(merge(&world, 100).await, 1);
    assert_eq!(wrong_keys(&world).await, 0);

    // The merging transaction dies: nothing is merged, and nothing is lost.
    run(&world, UNMERGED).await;
    let mut merging = world.db.begin().await.unwrap();
    assert_eq!(
        store::memory::postings::merge(&mut merging, 100).await.unwrap(),
        58
    );
    merging.rollback().await.unwrap();
    assert_eq!(merge(&world, 100).await, 58);
    assert_eq!(wrong_keys(&world).await, 0);
}

/// An entry gets its number when it is written; entries with later numbers may be committed before it.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_committed_late_is_found() {
    let world = World::start().await.unwrap();
    unrelated::fill(&world, 40).await;
    run(&world, UNMERGED).await;
    let mut late = world.db.begin().await.unwrap();
    run(
        &world,
        "delete from memory_unmerged where docs = array[(select min(id) from memory_entries)]",
    )
    .await;
    sqlx::query("insert into memory_unmerged (docs) select array[min(id)] from memory_entries")
        .execute(&mut *late)
        .await
        .unwrap();
    assert_eq!(merge(&world, 100).await, 39);
    late.commit().await.unwrap();
    assert_eq!(merge(&world, 100).await, 1);
    assert_eq!(wrong_keys(&world).await, 0);
}

/// Several merges and removals at once.
#[tokio::test(flavor = "multi_thread")]
async fn coordinators_that_merge_at_once_merge_everything_once() {
    let world = World::start().await.unwrap();
    unrelated::fill(&world, 200).await;
    run(&world, UNMERGED).await;
    let leaving = async {
        for entry in entries(&world).await.chunks(9).map(|chunk| chunk[0]) {
            // A transaction that removes an entry holds the entry's batch until its end.
            let mut tx = world.db.begin().await.unwrap();
            store::memory::index::remove(&mut tx, &[entry]).await.unwrap();
            tx.commit().await.unwrap();
        }
    };
    tokio::join!(merge(&world, 7), merge(&world, 11), leaving);
    merge(&world, 100).await;
    assert_eq!((wrong_keys(&world).await, waiting(&world).await), (0, (0, 0)));
}
