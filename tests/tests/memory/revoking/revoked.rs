//! A revoked entry is gone, the entry that it had replaced comes back, and no concurrent change saves it.

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::flow::memory::library::{self, Revoked};
use ralph_coordinator::flow::workers::rescue;
use ralph_coordinator::store;
use ralph_coordinator::store::memory::library::{GivenEntry, Origin};
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::Assignment;
use ralph_tests::harness::World;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pool::Pool;
use crate::scene;
use crate::trust::shown;

const ASKED: &str = "How hot the kettle boils";

/// Completes a task that reports at which temperature the kettle boils.
async fn boils(pool: &Pool<'_>, at: &str) -> Assignment {
    let text =
        format!("<knowledge tags='kettle,water' title='The kettle boils'>At {at} degrees.</knowledge>");
    scene::does(pool, &text).await
}

/// Number of revoked entries; `None` while the attempt is open.
pub async fn revoke(world: &World, dispatch: DispatchId) -> Option<usize> {
    match library::revoke(&world.db, dispatch).await.unwrap() {
        Revoked::Entries(taken) => Some(taken.entries),
        Revoked::StillOpen => None,
    }
}

/// Number of entries shown for the question, and bodies of the live entries.
async fn live(world: &World) -> (usize, Vec<String>) {
    let bodies = sqlx::query_scalar(
        "select body from knowledge where pruned_at is null and superseded_by is null order by id",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    (shown(world, Kind::Knowledge, ASKED).await.len(), bodies)
}

const THREE: &str =
    "- {key: a, title: Boil}\n- {key: b, title: Boil, after: [a]}\n- {key: c, title: Boil, after: [b]}\n";

#[tokio::test(flavor = "multi_thread")]
async fn revoking_the_middle_of_a_chain_leaves_its_end_in_place() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "kettle", THREE).await;
    boils(&pool, "100").await;
    let middle = boils(&pool, "50").await;
    let last = boils(&pool, "90").await;
    assert_eq!(revoke(&world, middle.dispatch).await, Some(1));
    assert_eq!(live(&world).await, (1, vec!["At 90 degrees.".to_owned()]));
    assert_eq!(revoke(&world, last.dispatch).await, Some(1));
    assert_eq!(
        live(&world).await,
        (1, vec!["At 100 degrees.".to_owned()]),
        "the first entry comes back when nothing replaces it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn purging_the_middle_of_a_chain_leaves_its_end_in_place() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "kettle", THREE).await;
    boils(&pool, "100").await;
    let middle = boils(&pool, "50").await;
    boils(&pool, "90").await;
    let entry: Uuid = sqlx::query_scalar("select id from knowledge where dispatch_id = $1")
        .bind(middle.dispatch.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(library::purge(&world.db, &[entry]).await.unwrap().0, 1);
    assert_eq!(live(&world).await, (1, vec!["At 90 degrees.".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_attempt_cannot_be_revoked() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "kettle", "- {key: a, title: Boil}").await;
    let open = scene::claims(&pool).await;
    assert_eq!(revoke(&world, open.dispatch).await, None);
    // A lost worker may still report.
    sqlx::query("update dispatches set lease_until = '-infinity'")
        .execute(&world.db)
        .await
        .unwrap();
    let (lost, _) = rescue::rescue(&world.db, world.settings.lease_ms(), true)
        .await
        .unwrap();
    assert_eq!(lost, 1);
    assert_eq!(revoke(&world, open.dispatch).await, None);
    let learned = "<knowledge tags='kettle' title='The kettle boils'>At 20 degrees.</knowledge>";
    scene::says(
        &pool,
        &open,
        &format!("{learned}\n<task-done>{}</task-done>", open.task),
    )
    .await;
    assert_eq!(revoke(&world, open.dispatch).await, Some(1));
    assert_eq!(live(&world).await, (0, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_never_replaces_a_persons_entry() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "kettle", "- {key: a, title: Boil}").await;
    let given = GivenEntry {
        origin: Origin::Manual,
        ..knowledge("The kettle boils", "At 100 degrees, says a person.")
    };
    library::add(&world.db, &[given]).await.unwrap();
    boils(&pool, "20").await;
    let (_, bodies) = live(&world).await;
    assert_eq!(bodies, ["At 100 degrees, says a person.", "At 20 degrees."]);
    // A person's entry doesn't hide an agent's newer one either.
    let given = GivenEntry {
        origin: Origin::Manual,
        ..knowledge("the KETTLE boils", "At 99 degrees, says a person.")
    };
    library::add(&world.db, &[given]).await.unwrap();
    let (_, bodies) = live(&world).await;
    assert_eq!(bodies, ["At 20 degrees.", "At 99 degrees, says a person."]);
}

fn knowledge(title: &str, body: &str) -> GivenEntry {
    GivenEntry {
        id: Uuid::now_v7(),
        repo_id: String::new(),
        kind: Kind::Knowledge,
        origin: Origin::Distilled,
        category: String::new(),
        title: title.to_owned(),
        body: body.to_owned(),
        tags: vec!["kettle".to_owned(), "water".to_owned()],
        paths: Vec::new(),
        feature: None,
        created_at: OffsetDateTime::now_utc(),
        external_id: None,
    }
}

/// The first half of a merging session's report: locks the memory and reads its live source.
async fn answering(conn: &mut PgConnection, source: &Assignment) -> (Uuid, GivenEntry) {
    store::memory::library::lock(conn, &[""]).await.unwrap();
    let from = sqlx::query_scalar("select id from knowledge where dispatch_id = $1")
        .bind(source.dispatch.0)
        .fetch_one(&mut *conn)
        .await
        .unwrap();
    (from, knowledge("Water in kettles", "It boils at 20 degrees."))
}

async fn answers(conn: &mut PgConnection, source: &Assignment, from: Uuid, made: &GivenEntry) {
    let stored = store::memory::library::insert_given(conn, std::slice::from_ref(made))
        .await
        .unwrap();
    let of = (source.task, source.dispatch);
    store::memory::distill::supersede(conn, stored[0], of, &[], &[from])
        .await
        .unwrap();
    // Another session than the source's made it.
    sqlx::query("update knowledge set dispatch_id = null where id = $1")
        .bind(made.id)
        .execute(&mut *conn)
        .await
        .unwrap();
}

/// Waits until a transaction waits for the memory.
pub async fn somebody_waits(world: &World) {
    let waits = "select exists (select from pg_locks where locktype = 'advisory' and not granted) and $1::uuid is not null";
    world.until(waits, Uuid::nil()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_merged_during_a_revocation_is_revoked_too() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "kettle", "- {key: a, title: Boil}").await;
    let wrong = boils(&pool, "20").await;
    let mut tx = world.db.begin().await.unwrap();
    let (from, made) = answering(&mut tx, &wrong).await;
    let (db, dispatch) = (world.db.clone(), wrong.dispatch);
    let revoking = tokio::spawn(async move { library::revoke(&db, dispatch).await.unwrap() });
    somebody_waits(&world).await;
    answers(&mut tx, &wrong, from, &made).await;
    tx.commit().await.unwrap();
    let Revoked::Entries(taken) = revoking.await.unwrap() else {
        panic!("it is over");
    };
    assert_eq!(taken.entries, 2);
    assert_eq!(live(&world).await, (0, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_merged_during_a_purge_is_purged_too() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "kettle", "- {key: a, title: Boil}").await;
    let secret = boils(&pool, "20").await;
    let mut tx = world.db.begin().await.unwrap();
    let (from, made) = answering(&mut tx, &secret).await;
    let db = world.db.clone();
    let purging = tokio::spawn(async move { library::purge(&db, &[from]).await.unwrap() });
    somebody_waits(&world).await;
    answers(&mut tx, &secret, from, &made).await;
    tx.commit().await.unwrap();
    assert_eq!(purging.await.unwrap().0, 2);
    let remaining: i64 = sqlx::query_scalar("select count(*) from knowledge")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(remaining, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_waits_for_the_features_lock() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let feature = scene::submit(&world, "kettle", "- {key: a, title: Boil}").await;
    let wrong = boils(&pool, "20").await;
    // Like a report that reverts a landing: locks the feature, then the memory, then changes attempts.
    let mut report = world.db.begin().await.unwrap();
    store::feature::lock(&mut report, &[feature.0]).await.unwrap();
    let (db, dispatch) = (world.db.clone(), wrong.dispatch);
    let revoking = tokio::spawn(async move { library::revoke(&db, dispatch).await.unwrap() });
    let waits = "select exists (select from pg_locks where locktype = 'transactionid' and not granted) and $1::uuid is not null";
    world.until(waits, Uuid::nil()).await.unwrap();
    store::memory::library::lock(&mut report, &[""]).await.unwrap();
    store::memory::retract::forget_words(&mut report, &[dispatch.0])
        .await
        .unwrap();
    report.commit().await.unwrap();
    let Revoked::Entries(taken) = revoking.await.unwrap() else {
        panic!("it is over");
    };
    assert_eq!(taken.entries, 1);
    assert_eq!(live(&world).await, (0, vec![]));
}
