//! A claim that finds nothing waits for a moment with its coordinator, and is handed what becomes ready meanwhile.

use ralph_shared::wire::{Assignment, ClaimAnswer};
use ralph_tests::harness::{FeatureOptions, Stub, World, until};

use super::scene::{ONE, Scene};

/// What a claim gets that waited before `meanwhile`.
async fn handed(world: &World, stub: &Stub, meanwhile: impl AsyncFnOnce()) -> Assignment {
    let acted = async {
        until("a claim to wait", async || world.has_waiting_claims()).await;
        meanwhile().await;
    };
    let (answer, ()) = tokio::join!(stub.claim_patiently(), acted);
    match answer.unwrap() {
        ClaimAnswer::Assigned { assignment } => *assignment,
        other => panic!("a claim that waited was not handed what became ready: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_report_frees_goes_to_a_waiting_claim_without_a_ticket() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let stub = Stub::hello(&world, "free").await.unwrap();
    let two = "- key: a\n  title: First\n- key: b\n  title: Second\n  after: [a]\n";
    let scene = Scene::scratch(&world, "free", two, FeatureOptions::default()).await;
    let first = stub.claim().await.unwrap();
    let report = stub.done(&first);
    let second = handed(&world, &stub, async || stub.publish(&report).await.unwrap()).await;
    assert_eq!(second.task, scene.tasks[1]);
    // Nobody took the first one's.
    let tickets = world.bus.waiting_tickets().await.unwrap();
    assert_eq!(tickets.by_pool.get("free"), Some(&1));
    stub.publish(&stub.done(&second)).await.unwrap();
    scene.completes().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_finds_room_goes_to_a_waiting_claim_without_a_ticket() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let stub = Stub::hello(&world, "room").await.unwrap();
    let two = "- key: a\n  title: First\n- key: b\n  title: Second\n";
    let one_at_a_time = FeatureOptions {
        max_parallel: 1,
        ..FeatureOptions::default()
    };
    let scene = Scene::scratch(&world, "room", two, one_at_a_time).await;
    let first = stub.claim().await.unwrap();
    let report = stub.done(&first);
    // Both have their tickets from the start, so none is issued now.
    let second = handed(&world, &stub, async || stub.publish(&report).await.unwrap()).await;
    assert_ne!(second.task, first.task);
    let tickets = world.bus.waiting_tickets().await.unwrap();
    assert_eq!(tickets.by_pool.get("room"), Some(&2));
    stub.publish(&stub.done(&second)).await.unwrap();
    scene.completes().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_claim_hears_of_what_others_made_ready() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let stub = Stub::hello(&world, "heard").await.unwrap();
    // Submitted elsewhere than where the claim waits.
    let submitted = async || {
        Scene::scratch(&world, "heard", ONE, FeatureOptions::default()).await;
    };
    handed(&world, &stub, submitted).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits_no_longer_than_its_coordinator_serves() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let stub = Stub::hello(&world, "left").await.unwrap();
    let stops = async {
        until("a claim to wait", async || world.has_waiting_claims()).await;
        world.stop_coordinators();
    };
    let (answer, ()) = tokio::join!(stub.claim_patiently(), stops);
    assert_eq!(answer.unwrap(), ClaimAnswer::Nothing);
    world.stop().await;
}
