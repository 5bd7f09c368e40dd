//! Concurrent changes to the memory give the same result as one after the other.

use futures::future::join_all;
use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::flow::apply::ReportFate;
use ralph_coordinator::flow::memory::upkeep;
use ralph_coordinator::store;
use ralph_shared::wire::Ended;
use ralph_tests::harness::World;

use super::pool::Pool;
use super::scene;
use super::trust::shown;
use crate::revoking::revoked::somebody_waits;

fn graph(tasks: usize) -> String {
    (0..tasks)
        .map(|n| format!("- {{key: k{n}, title: Boil}}\n"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_tasks_with_the_same_knowledge_leave_one_live_entry() {
    const TASKS: usize = 6;
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    // Separate features: reports of one feature wait for each other anyway.
    for n in 0..TASKS {
        scene::submit(&world, &format!("kettle-{n}"), &graph(1)).await;
    }
    let claimed = pool.claim_once(&[["default"]; TASKS]).await;
    assert_eq!(claimed.len(), TASKS);
    let reports = claimed.iter().map(|of| {
        let text = format!(
            "<knowledge tags='kettle' title='The kettle boils'>At 100 degrees.</knowledge><task-done>{}</task-done>",
            of.task
        );
        let ended = Ended::Turn {
            stop_reason: "end_turn".into(),
        };
        pool.report(vec![pool.session(of, ended, &text, 0)])
    });
    for fates in join_all(reports).await {
        assert_eq!(fates, [ReportFate::Applied]);
    }
    let live: (i64, i64) = sqlx::query_as(
        "select count(*) filter (where superseded_by is null), count(*) from knowledge where released_at is not null",
    )
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert_eq!(
        live,
        (1, i64::try_from(TASKS).unwrap()),
        "the others remain, linked to the live one"
    );
    assert_eq!(
        shown(&world, Kind::Knowledge, "How the kettle boils").await.len(),
        1
    );
}

async fn number(world: &World, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&world.db).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_upkeep_indexes_every_entry_once() {
    const TASKS: usize = 8;
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "kettle", &graph(TASKS)).await;
    for n in 0..TASKS {
        let learned = format!(
            "<learning category='pitfall' tags='kettle'>Kettle {n} leaks.</learning><journal>Number {n}.</journal>"
        );
        scene::does(&pool, &learned).await;
    }
    sqlx::raw_sql(
        "update runs set ended_at = now(), journal_indexed_at = null;
         update learnings set released_at = null, doc_id = null, indexed_at = null, words = null;
         delete from memory_docs;
         delete from memory_stats",
    )
    .execute(&world.db)
    .await
    .unwrap();
    for _ in 0..3 {
        let ticks = join_all((0..4).map(|_| upkeep::tick(&world.db))).await;
        for tick in ticks {
            assert_eq!(tick.unwrap().failed, 0);
        }
    }
    let twice = i64::try_from(2 * TASKS).unwrap();
    assert_eq!(number(&world, "select count(*) from memory_entries").await, twice);
    assert_eq!(
        number(&world, "select sum(entries)::bigint from memory_stats").await,
        twice
    );
    let counted = number(
        &world,
        "select sum(stands)::bigint from (
           select distinct on (key) stands from memory_postings order by key, block desc
         ) newest",
    )
    .await;
    let mut conn = world.db.acquire().await.unwrap();
    let ids: Vec<i64> = sqlx::query_scalar("select id from memory_entries")
        .fetch_all(&mut *conn)
        .await
        .unwrap();
    let entries = store::memory::index::indexed(&mut conn, &ids).await.unwrap();
    drop(conn);
    let keys: usize = entries.iter().map(|entry| entry.keys.len()).sum();
    assert_eq!(
        usize::try_from(counted).unwrap(),
        keys,
        "no word is counted twice"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_locks_the_memory_before_it_changes_an_entry() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "kettle", "- {key: a, title: Boil}").await;
    let learned = "<knowledge tags='kettle' title='The kettle boils'>At 100 degrees.</knowledge>";
    scene::fails(&pool, learned).await;
    let again = scene::claims(&pool).await;
    // Like a repository scan or a purge: lock the memory, then change an entry.
    let mut holds = world.db.begin().await.unwrap();
    store::memory::library::lock(&mut holds, &[""]).await.unwrap();
    sqlx::raw_sql("set local lock_timeout = '200ms'")
        .execute(&mut *holds)
        .await
        .unwrap();
    let done = format!("<task-done>{}</task-done>", again.task);
    let changes = async {
        somebody_waits(&world).await;
        sqlx::query("update knowledge set tags = tags")
            .execute(&mut *holds)
            .await
            .unwrap();
        holds.commit().await.unwrap();
    };
    tokio::join!(scene::says(&pool, &again, &done), changes);
    let released = number(
        &world,
        "select count(*) from knowledge where released_at is not null",
    )
    .await;
    assert_eq!(released, 1);
}
