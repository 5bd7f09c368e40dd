//! The confidence below which a memory shows no entry.

use ralph_coordinator::flow::memory::{library, upkeep};
use ralph_tests::harness::World;

use super::unrelated;

async fn floor(world: &World) -> Option<f64> {
    sqlx::query_scalar("select floor from memory_stats")
        .fetch_one(&world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_floor_is_calibrated_during_an_import() {
    let world = World::start().await.unwrap();
    unrelated::fill(&world, 300).await;
    let found = floor(&world).await;
    assert!(found.is_some());
    // The state between an import's transactions and the count of its words.
    for forget in [
        "update memory_stats set floor = null, calibrated_at_entries = 0",
        "truncate memory_postings",
        "insert into memory_unmerged (docs) select array_agg(id) from memory_entries",
    ] {
        sqlx::query(forget).execute(&world.db).await.unwrap();
    }
    assert_eq!(upkeep::tick(&world.db).await.unwrap().calibrated, 0);
    assert_eq!(floor(&world).await, None);
    library::settle(&world.db).await.unwrap();
    assert_eq!(floor(&world).await, found);
}
