//! The memory stays within its bounds by hiding its least valuable entries, and records the reason.

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::domain::recall::lifecycle::Bounds;
use ralph_coordinator::flow::memory::embedding::Meaning;
use ralph_coordinator::flow::memory::library::{self, ImportLine, Restored};
use ralph_coordinator::flow::memory::lifecycle::{self, Pruned};
use ralph_coordinator::store;
use ralph_coordinator::store::memory::library::{GivenEntry, Origin};
use ralph_tests::harness::World;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::revoking::revoked::somebody_waits;

fn line(number: usize) -> ImportLine {
    ImportLine {
        id: format!("e{number}"),
        date: OffsetDateTime::now_utc() - time::Duration::days(3_000),
        title: format!("Entry number {number}"),
        body: String::new(),
        paths: Vec::new(),
        tags: vec!["numbers".to_owned()],
        kind: Kind::Learning,
        category: None,
        feature: None,
    }
}

async fn live(world: &World) -> Vec<String> {
    sqlx::query_scalar(
        "select coalesce(external_id, 'by hand') from learnings
         where pruned_at is null order by external_id nulls last",
    )
    .fetch_all(&world.db)
    .await
    .unwrap()
}

async fn set(world: &World, sql: &'static str) {
    sqlx::query(sql).execute(&world.db).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_surplus_and_stale_entries_are_hidden() {
    let world = World::start().await.unwrap();
    let lines: Vec<ImportLine> = (1..=5).map(line).collect();
    library::import(&world.db, "", &lines).await.unwrap();
    let by_hand = GivenEntry {
        id: Uuid::now_v7(),
        repo_id: String::new(),
        kind: Kind::Learning,
        origin: Origin::Manual,
        category: "other".to_owned(),
        title: String::new(),
        body: "Numbers are read from the left".to_owned(),
        tags: Vec::new(),
        paths: Vec::new(),
        feature: None,
        created_at: OffsetDateTime::now_utc(),
        external_id: None,
    };
    library::add(&world.db, &[by_hand]).await.unwrap();
    let bounds = Bounds::default();
    let nothing = Pruned::default();
    assert_eq!(lifecycle::tick(&world.db, &bounds).await.unwrap(), nothing);

    set(
        &world,
        "update learnings set released_at = now() - interval '366 days'",
    )
    .await;
    set(
        &world,
        "update learnings set last_used_at = now() where external_id <> 'e3'",
    )
    .await;
    let unused = Pruned { unused: 1, ..nothing };
    assert_eq!(lifecycle::tick(&world.db, &bounds).await.unwrap(), unused);
    assert_eq!(live(&world).await, ["e1", "e2", "e4", "e5", "by hand"]);

    set(
        &world,
        "update learnings set weight = 0.3 where external_id = 'e4' or origin = 'manual'",
    )
    .await;
    let bounds = Bounds {
        learnings: 4,
        ..bounds
    };
    let full = Pruned { full: 1, ..nothing };
    assert_eq!(lifecycle::tick(&world.db, &bounds).await.unwrap(), full);
    assert_eq!(live(&world).await, ["e1", "e2", "e5", "by hand"]);
    assert_eq!(lifecycle::tick(&world.db, &bounds).await.unwrap(), nothing);

    set(
        &world,
        "update learnings set stale_since = now() - interval '29 days' where external_id = 'e1'",
    )
    .await;
    set(
        &world,
        "update learnings set stale_since = now() - interval '31 days' where external_id = 'e2'",
    )
    .await;
    let stale = Pruned { stale: 1, ..nothing };
    assert_eq!(lifecycle::tick(&world.db, &bounds).await.unwrap(), stale);
    assert_eq!(live(&world).await, ["e1", "e5", "by hand"]);

    let mut conn = world.db.acquire().await.unwrap();
    let fates = store::memory::upkeep::fates(&mut conn, Some("")).await.unwrap();
    let expected = [
        ("live", 2),
        ("pruned_full", 1),
        ("pruned_stale", 1),
        ("pruned_unused", 1),
        ("stale", 1),
    ];
    assert_eq!(
        fates
            .entries
            .iter()
            .map(|(status, n)| (status.as_str(), *n))
            .collect::<Vec<_>>(),
        expected
    );
    let picked = library::search(
        &world.db,
        Meaning::NONE,
        "",
        Kind::Learning,
        &[library::QueryLine {
            query_id: "q".to_owned(),
            date: OffsetDateTime::now_utc(),
            title: "Entry number 3".to_owned(),
            description: String::new(),
        }],
        9,
    )
    .await
    .unwrap();
    assert!(
        picked[0]
            .shown
            .iter()
            .all(|one| one.entry.external_id.as_deref() != Some("e3"))
    );
    drop(conn);

    // A restored entry's unused time counts from the restore.
    let unused: Uuid = sqlx::query_scalar("select id from learnings where external_id = 'e3'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    let restored = library::restore(&world.db, &[unused]).await.unwrap();
    assert!(matches!(restored, Restored::Entries(1)), "{restored:?}");
    assert_eq!(lifecycle::tick(&world.db, &bounds).await.unwrap(), nothing);
    assert_eq!(live(&world).await, ["e1", "e3", "e5", "by hand"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_used_while_upkeep_waits_is_not_hidden() {
    let world = World::start().await.unwrap();
    library::import(&world.db, "", &[line(1), line(2)]).await.unwrap();
    set(
        &world,
        "update learnings set released_at = now() - interval '366 days'",
    )
    .await;
    // Another transaction holds the memory: upkeep has selected its entries and waits.
    let mut holds = world.db.begin().await.unwrap();
    store::memory::library::lock(&mut holds, &[""]).await.unwrap();
    let db = world.db.clone();
    let ticking = tokio::spawn(async move { lifecycle::tick(&db, &Bounds::default()).await.unwrap() });
    somebody_waits(&world).await;
    set(
        &world,
        "update learnings set last_used_at = now() where external_id = 'e1'",
    )
    .await;
    // Another coordinator skips a memory whose upkeep is under way.
    let nothing = Pruned::default();
    assert_eq!(
        lifecycle::tick(&world.db, &Bounds::default()).await.unwrap(),
        nothing
    );
    holds.commit().await.unwrap();
    let unused = Pruned { unused: 1, ..nothing };
    assert_eq!(ticking.await.unwrap(), unused);
    assert_eq!(live(&world).await, ["e1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_pruning_step_does_not_stop_the_others() {
    let world = World::start().await.unwrap();
    let lines: Vec<ImportLine> = (1..=3).map(line).collect();
    library::import(&world.db, "", &lines).await.unwrap();
    set(
        &world,
        "update learnings set released_at = now() - interval '366 days' where external_id = 'e1'",
    )
    .await;
    sqlx::raw_sql(
        "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'it is refused'; end $$;
         create trigger refuses before update on learnings
         for each row when (new.pruned_because = 'unused') execute function refuse()",
    )
    .execute(&world.db)
    .await
    .unwrap();
    let bounds = Bounds {
        learnings: 2,
        ..Bounds::default()
    };
    let expected = Pruned {
        full: 1,
        failed: 1,
        ..Pruned::default()
    };
    assert_eq!(lifecycle::tick(&world.db, &bounds).await.unwrap(), expected);
}
