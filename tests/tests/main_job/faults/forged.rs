//! Messages that a worker has no right to send. All workers may share one user of the broker.

use futures::{FutureExt as _, StreamExt as _};
use ralph_coordinator::embedded::Role;
use ralph_shared::broker;
use ralph_shared::wire::{BlobAnswer, BlobRequest};
use ralph_tests::harness::{FeatureOptions, Stub, World};

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn coordinators_send_no_answer_to_a_control_subject() {
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
    // Real requests get their answers; by the last one, the forged requests would have been answered too.
    for _ in 0..50 {
        let answer = forger.request("ralph.blob", ask.clone().into()).await.unwrap();
        let answer: BlobAnswer = serde_json::from_slice(&answer.payload).unwrap();
        assert!(matches!(answer, BlobAnswer::Missing), "{answer:?}");
    }
    stub.link.claim(&stub.request()).await.unwrap();
    world.bus.client.flush().await.unwrap();
    assert!(orders.next().now_or_never().is_none(), "an order was forged");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_renews_or_settles_the_dispatch_of_another() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let holder = Stub::hello(&world, "holder").await.unwrap();
    let other = Stub::hello(&world, "other").await.unwrap();
    let one = "- {key: only, title: Only one}";
    let scene = Scene::scratch(&world, "holder", one, FeatureOptions::default()).await;
    let claimed = holder.claim().await.unwrap();
    let incarnation = async || -> uuid::Uuid {
        sqlx::query_scalar("select incarnation from dispatches where id = $1")
            .bind(claimed.dispatch.0)
            .fetch_one(&world.db)
            .await
            .unwrap()
    };
    let before = incarnation().await;
    // The other worker learns that the dispatch isn't settled, and nothing changes.
    let answer = other
        .settled(&[claimed.dispatch], claimed.dispatch)
        .await
        .unwrap();
    assert_eq!((answer, incarnation().await), (None, before));

    let theirs = other.done(&claimed);
    let mut named = theirs.clone();
    named.worker = "holder".to_owned();
    let mut broken = serde_json::to_value(&named).unwrap();
    broken.as_object_mut().unwrap().remove("finished");
    other.publish(&theirs).await.unwrap();
    other.publish(&named).await.unwrap();
    other
        .publish_raw(serde_json::to_vec(&broken).unwrap())
        .await
        .unwrap();
    scene
        .until(
            "select count(*) = 3 from bad_reports b join dispatches d on d.id = b.dispatch_id where d.feature_id = $1",
        )
        .await;
    assert_eq!(
        scene.attempts().await,
        [("live".into(), String::new(), String::new())],
        "only the holder settles it"
    );
    holder.publish(&holder.done(&claimed)).await.unwrap();
    scene.completes().await;
    assert_eq!(
        scene.attempts().await,
        [("settled".into(), "done".into(), String::new())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_has_at_most_256_parts() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let _stub = Stub::hello(&world, "endless").await.unwrap();
    let url = world.nats_url(Role::Worker).unwrap();
    let worker = broker::connect_worker(&url, "endless").await.unwrap();
    for (index, fits) in [(255, true), (256, false), (u32::MAX, false)] {
        let put = BlobRequest::Put {
            sha256: "ab".to_owned(),
            index,
            base64: String::new(),
        };
        let body = serde_json::to_vec(&put).unwrap();
        let answer = worker.request("ralph.blob", body.into()).await.unwrap();
        let answer: BlobAnswer = serde_json::from_slice(&answer.payload).unwrap();
        assert_eq!(matches!(answer, BlobAnswer::Stored), fits, "{index}: {answer:?}");
    }
}
