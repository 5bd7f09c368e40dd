//! Restored and edited entries never stand beside a live entry with the same content.

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::domain::recall::lifecycle::NotRestorable;
use ralph_coordinator::flow::memory::library::{self, EditMemory, Edited, Restored};
use ralph_coordinator::store::memory::library::{GivenEntry, Origin};
use ralph_tests::harness::World;
use time::OffsetDateTime;
use uuid::Uuid;

use super::scene;

async fn given(world: &World, title: &str, body: &str) -> Uuid {
    let given = GivenEntry {
        id: Uuid::now_v7(),
        repo_id: String::new(),
        kind: Kind::Knowledge,
        origin: Origin::Manual,
        category: String::new(),
        title: title.to_owned(),
        body: body.to_owned(),
        tags: vec!["kettle".to_owned(), "water".to_owned()],
        paths: Vec::new(),
        feature: None,
        created_at: OffsetDateTime::now_utc(),
        external_id: None,
    };
    let id = given.id;
    library::add(&world.db, &[given]).await.unwrap();
    id
}

/// Bodies of the live entries.
async fn live(world: &World) -> Vec<String> {
    sqlx::query_scalar(
        "select body from knowledge where pruned_at is null and superseded_by is null order by id",
    )
    .fetch_all(&world.db)
    .await
    .unwrap()
}

/// Entries that cannot be restored, each with the entry that replaced it.
async fn refused(world: &World, ids: &[Uuid]) -> Vec<(Uuid, Option<Uuid>)> {
    match library::restore(&world.db, ids).await.unwrap() {
        Restored::Refused(stay) => {
            assert!(
                stay.iter().all(|(_, why)| *why == NotRestorable::Replaced),
                "{stay:?}"
            );
            let ids = stay.iter().map(|(entry, _)| (entry.id, entry.superseded_by));
            ids.collect()
        }
        Restored::Entries(entries) => panic!("{entries} came back"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_not_restored_beside_a_live_one_of_the_same_content() {
    let world = scene::world().await;
    let other = given(&world, "The stove burns", "Gas.").await;
    let old = given(&world, "The kettle boils", "At 50 degrees.").await;
    library::prune(&world.db, &[old, other]).await.unwrap();
    let new = given(&world, "The kettle boils on a stove", "At 100 degrees.").await;
    assert_eq!(refused(&world, &[old, other]).await, [(old, Some(new))]);
    assert_eq!(live(&world).await, ["At 100 degrees."], "all or none");
    // Two entries with the same content are not restored together.
    library::prune(&world.db, &[new]).await.unwrap();
    assert_eq!(refused(&world, &[new, old]).await, [(old, Some(new))]);
    let restored = library::restore(&world.db, &[old, other]).await.unwrap();
    assert!(matches!(restored, Restored::Entries(2)), "{restored:?}");
    assert_eq!(live(&world).await, ["Gas.", "At 50 degrees."]);
    assert_eq!(refused(&world, &[new]).await, [(new, Some(old))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_entry_cannot_be_edited() {
    let world = scene::world().await;
    let old = given(&world, "The kettle boils", "At 50 degrees.").await;
    let new = given(&world, "The kettle boils", "At 90 degrees.").await;
    let edit = EditMemory {
        body: Some("At 100 degrees.".to_owned()),
        tags: Some(vec!["Kettle".to_owned(), "STEAM".to_owned()]),
        ..EditMemory::default()
    };
    let edited = async |id: Uuid| library::edit(&world.db, id, &edit).await.unwrap();
    assert_eq!(edited(old).await, Edited::ReplacedBy(new));
    assert_eq!(edited(Uuid::nil()).await, Edited::Gone);
    assert_eq!(edited(new).await, Edited::Changed);
    let entries: Vec<(String, String)> =
        sqlx::query_as("select body, array_to_string(tags, ' ') from knowledge order by id")
            .fetch_all(&world.db)
            .await
            .unwrap();
    let entry = |body: &str, tags: &str| (body.to_owned(), tags.to_owned());
    assert_eq!(
        entries,
        [
            entry("At 50 degrees.", "kettle water"),
            entry("At 100 degrees.", "kettle steam"),
        ]
    );
}
