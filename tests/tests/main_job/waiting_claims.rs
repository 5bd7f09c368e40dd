//! A claim that finds nothing waits at its coordinator for a moment, and gets a task that becomes ready
//! meanwhile.

use ralph_shared::wire::{Assignment, ClaimAnswer};
use ralph_tests::harness::{FeatureOptions, Stub, World, until};

use super::scene::{ONE, Scene};

/// The assignment of a claim that waits while `meanwhile` happens.
async fn assigned_while(world: &World, stub: &Stub, meanwhile: impl AsyncFnOnce()) -> Assignment {
    let act = async {
        until("a claim to wait", async || world.has_waiting_claims()).await;
        meanwhile().await;
    };
    let (answer, ()) = tokio::join!(stub.claim_patiently(), act);
    match answer.unwrap() {
        ClaimAnswer::Assigned { assignment } => *assignment,
        other => panic!("a waiting claim did not get the ready task: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_freed_by_a_report_goes_directly_to_a_waiting_claim() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let stub = Stub::hello(&world, "free").await.unwrap();
    let two = "- key: a\n  title: First\n- key: b\n  title: Second\n  after: [a]\n";
    let scene = Scene::scratch(&world, "free", two, FeatureOptions::default()).await;
    let first = stub.claim().await.unwrap();
    let report = stub.done(&first);
    let second = assigned_while(&world, &stub, async || stub.publish(&report).await.unwrap()).await;
    assert_eq!(second.task, scene.tasks[1]);
    // No worker took the first task's ticket.
    let tickets = world.bus.waiting_tickets().await.unwrap();
    assert_eq!(tickets.by_pool.get("free"), Some(&1));
    stub.publish(&stub.done(&second)).await.unwrap();
    scene.completes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_gets_room_goes_directly_to_a_waiting_claim() {
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
    let second = assigned_while(&world, &stub, async || stub.publish(&report).await.unwrap()).await;
    assert_ne!(second.task, first.task);
    let tickets = world.bus.waiting_tickets().await.unwrap();
    assert_eq!(tickets.by_pool.get("room"), Some(&2));
    stub.publish(&stub.done(&second)).await.unwrap();
    scene.completes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_claim_gets_a_task_that_was_submitted_elsewhere() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let stub = Stub::hello(&world, "heard").await.unwrap();
    // Submitted elsewhere, not through the coordinator where the claim waits.
    let submitted = async || {
        Scene::scratch(&world, "heard", ONE, FeatureOptions::default()).await;
    };
    assigned_while(&world, &stub, submitted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_claim_ends_when_its_coordinator_stops() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let stub = Stub::hello(&world, "left").await.unwrap();
    let stops = async {
        until("a claim to wait", async || world.has_waiting_claims()).await;
        world.stop_coordinators();
    };
    let (answer, ()) = tokio::join!(stub.claim_patiently(), stops);
    assert_eq!(answer.unwrap(), ClaimAnswer::Nothing);
}
