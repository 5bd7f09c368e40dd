//! A worker repeats its hello when the answer to the first is late.

use ralph_coordinator::store::{self, view};
use ralph_tests::harness::World;

use crate::pool::Pool;

#[tokio::test]
async fn a_repeated_hello_keeps_a_drain_order() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    assert!(!pool.is_to_drain().await);
    let mut conn = world.db.acquire().await.unwrap();
    assert!(store::worker::request_drain(&mut conn, "w").await.unwrap());
    drop(conn);
    pool.say_hello(Vec::new()).await;
    assert!(pool.is_to_drain().await);
    // The order applies to one incarnation only.
    let next = Pool::join(&world).await;
    assert!(!next.is_to_drain().await);
}

#[tokio::test]
async fn the_latest_size_of_a_workers_build_output_is_shown() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let shown = async || {
        let mut conn = world.db.acquire().await.unwrap();
        let workers = view::workers(&mut conn, 10_000).await.unwrap();
        workers[0].warm()
    };
    assert_eq!(shown().await, None);
    pool.keeps(Some(3 << 20)).await;
    assert_eq!(shown().await.as_deref(), Some("3.0 MiB"));
}
