//! What a worker says that is not its own to say. All of them may share one user of the broker.

use futures::{FutureExt as _, StreamExt as _};
use ralph_coordinator::embedded::Role;
use ralph_shared::broker;
use ralph_shared::wire::{BlobAnswer, BlobRequest};
use ralph_tests::harness::{Stub, World};

#[tokio::test(flavor = "multi_thread")]
async fn coordinators_say_for_no_worker_what_it_may_not() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let stub = Stub::hello(&world, "forger").await.unwrap();
    let url = world.nats_url(Role::Worker).unwrap();
    let forger = broker::connect(&url, "forger").await.unwrap();
    let mut orders = world.bus.client.subscribe("ralph.control.victim").await.unwrap();
    world.bus.client.flush().await.unwrap();
    let ask = serde_json::to_vec(&BlobRequest::Get {
        sha256: "00".to_owned(),
        index: 0,
    })
    .unwrap();
    let claim = serde_json::to_vec(&stub.request()).unwrap();
    for (subject, body) in [("ralph.blob", &ask), ("ralph.claim", &claim)] {
        forger
            .publish_with_reply(subject, "ralph.control.victim", body.clone().into())
            .await
            .unwrap();
    }
    // Whoever waits for an answer gets it; by the last of these the forged ones would have been answered.
    for _ in 0..50 {
        let answer = forger.request("ralph.blob", ask.clone().into()).await.unwrap();
        let answer: BlobAnswer = serde_json::from_slice(&answer.payload).unwrap();
        assert!(matches!(answer, BlobAnswer::Missing), "{answer:?}");
    }
    stub.link.claim(&stub.request()).await.unwrap();
    world.bus.client.flush().await.unwrap();
    assert!(orders.next().now_or_never().is_none(), "an order was forged");
    world.stop().await;
}
