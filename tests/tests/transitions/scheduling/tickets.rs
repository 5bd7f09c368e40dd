//! Tickets that the coordinator issues for ready tasks.

use std::collections::BTreeSet;
use std::time::Duration;

use ralph_coordinator::flow::claim::tickets;
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;

#[tokio::test(flavor = "multi_thread")]
async fn no_ticket_is_issued_for_tasks_without_room() {
    let world = World::calm().await.unwrap();
    world.bus.ensure_streams().await.unwrap();
    let pool = Pool::join(&world).await;
    let options = FeatureOptions {
        max_parallel: 2,
        ..FeatureOptions::default()
    };
    let graph = "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C}\n- {key: d, title: D}";
    let (feature, ..) = world.submit("f", None, graph, &options).await.unwrap();
    let mut pools = BTreeSet::new();
    purge_tickets(&world, 4).await;
    for expected in [2, 1, 0] {
        let issued = tickets::top_up(&world.db, &world.bus, &world.settings, &mut pools)
            .await
            .unwrap();
        assert_eq!(issued, expected, "two may run at once");
        purge_tickets(&world, expected).await;
        pool.claim_once(&[&["default"]]).await;
    }
    sqlx::query("update features set max_parallel = 3 where id = $1")
        .bind(feature.0)
        .execute(&world.db)
        .await
        .unwrap();
    let more = tickets::top_up(&world.db, &world.bus, &world.settings, &mut pools)
        .await
        .unwrap();
    assert_eq!(more, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_streams_of_an_earlier_release_are_updated() {
    let world = World::calm().await.unwrap();
    let bus = &world.bus;
    let name = bus.subjects.tickets_stream();
    let bytes = async || {
        let stream = bus.jetstream.get_stream(&name).await.unwrap();
        stream.cached_info().config.max_bytes
    };
    let made = bytes().await;
    // Halve the stream's size and label it with another release's number.
    let as_of = async |number: &str| {
        let stream = bus.jetstream.get_stream(&name).await.unwrap();
        let mut config = stream.cached_info().config.clone();
        config.max_bytes = made / 2;
        let number = ("ralph-configuration".to_owned(), number.to_owned());
        config.metadata.extend([number]);
        bus.jetstream.update_stream(config).await.unwrap();
    };
    as_of("99").await;
    bus.ensure_streams().await.unwrap();
    assert_eq!(bytes().await, made / 2, "a later release's stream stays");
    as_of("0").await;
    bus.ensure_streams().await.unwrap();
    assert_eq!(bytes().await, made, "an earlier release's stream is updated");
}

/// Purges the tickets once `n` have arrived.
pub async fn purge_tickets(world: &World, n: i64) {
    let arrived = async {
        while world
            .bus
            .waiting_tickets()
            .await
            .unwrap()
            .by_pool
            .values()
            .sum::<i64>()
            < n
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), arrived)
        .await
        .expect("the tickets did not arrive");
    let stream = world.bus.subjects.tickets_stream();
    let stream = world.bus.jetstream.get_stream(stream).await.unwrap();
    stream.purge().await.unwrap();
}
