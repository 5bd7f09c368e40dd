//! Two concurrent transactions, held in the order that goes wrong.

use std::collections::BTreeSet;

use ralph_coordinator::domain::scheduling::availability::NO_AGENT;
use ralph_coordinator::domain::scheduling::capability::Capability;
use ralph_coordinator::flow::{Signals, claim, integrate};
use ralph_coordinator::store;
use ralph_coordinator::store::queue::ready::ReadyFilter;
use ralph_shared::ids::DispatchId;
use ralph_tests::harness::{Stub, World};

use crate::scene::{ONE, Scene};

const A_LOCK_IS_AWAITED: &str =
    "select $1::uuid is not null and exists (select 1 from pg_stat_activity where wait_event_type = 'Lock')";

/// Claims don't take the feature's lock, so another report of the feature may look for the next turn
/// meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_being_claimed_is_not_queued_again() {
    let world = World::start().await.unwrap();
    let scene = Scene::submit(&world, "turn", ONE).await;
    let (feature, task) = (scene.feature, scene.tasks[0]);
    let features = BTreeSet::from([feature]);
    let mut tx = world.db.begin().await.unwrap();
    store::queue::ready::withdraw(&mut tx, &[task.0]).await.unwrap();
    sqlx::query("update tasks set state = 'in_progress', next_kind = 'integrate', attempt = 1 where id = $1")
        .bind(task.0)
        .execute(&mut *tx)
        .await
        .unwrap();
    store::git::integration::queue(
        &mut tx,
        feature,
        task,
        1,
        &"0".repeat(40),
        "refs/heads/attempt",
        false,
    )
    .await
    .unwrap();
    integrate::promote(&mut tx, &features, &mut Signals::default())
        .await
        .unwrap();
    tx.commit().await.unwrap();

    let mut claiming = world.db.begin().await.unwrap();
    let offer = Capability {
        startable: Vec::new(),
        shut: Vec::new(),
        pools: vec!["turn".to_owned()],
        agents: vec![NO_AGENT.to_owned()],
    };
    let taken = store::queue::ready::take(&mut claiming, &offer, &[(feature, 1)], ReadyFilter::FollowUps)
        .await
        .unwrap();
    assert_eq!(taken.len(), 1);
    store::git::integration::give_turn(&mut claiming, &[task.0], &[DispatchId::new().0])
        .await
        .unwrap();
    let mut promoting = world.db.begin().await.unwrap();
    let promoted = tokio::spawn(async move {
        integrate::promote(&mut promoting, &features, &mut Signals::default()).await?;
        promoting.commit().await
    });
    scene.until(A_LOCK_IS_AWAITED).await;
    claiming.commit().await.unwrap();
    promoted.await.unwrap().unwrap();
    let queued: i64 = sqlx::query_scalar("select count(*) from ready_tasks")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(queued, 0, "a second claim would take the turn from the first");
}

/// The prompts of a batch share one row; repeated claims come one by one, in other batches.
#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_stored_when_claims_of_a_batch_are_repeated() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let two = "- {key: a, title: A, pool: twice}\n- {key: b, title: B, pool: twice}\n";
    Scene::submit(&world, "twice", two).await;
    let stub = Stub::hello(&world, "twice").await.unwrap();
    let claims = [stub.request(), stub.request()];
    // The coordinator that served the batch died before it stored the prompts.
    claim::serve(&world.db, &world.settings, &claims, ())
        .await
        .unwrap();
    for again in &claims {
        claim::claim(&world.db, &world.settings, std::slice::from_ref(again))
            .await
            .unwrap();
    }
    let mut conn = world.db.acquire().await.unwrap();
    for one in &claims {
        let stored = store::dispatch::prompt::read(&mut conn, one.claim).await.unwrap();
        assert!(stored.is_some(), "the prompt of {}", one.claim);
    }
    drop(conn);
}
