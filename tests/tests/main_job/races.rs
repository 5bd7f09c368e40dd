//! Two transactions at once, held in the order that goes wrong.

use std::collections::BTreeSet;

use ralph_coordinator::flow::{Signals, integrate};
use ralph_coordinator::store;
use ralph_shared::ids::DispatchId;
use ralph_tests::harness::World;

use super::scene::{ONE, Scene};

const SOMEBODY_WAITS: &str =
    "select $1::uuid is not null and exists (select 1 from pg_stat_activity where wait_event_type = 'Lock')";

/// Claims don't take the feature's lock, so that another report of the feature may look for the next turn meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn turn_that_is_just_being_claimed_is_not_queued_again() {
    let world = World::start().await.unwrap();
    let scene = Scene::submit(&world, "turn", ONE).await;
    let (feature, task) = (scene.feature, scene.tasks[0]);
    let features = BTreeSet::from([feature]);
    let mut tx = world.db.begin().await.unwrap();
    store::ready::withdraw(&mut tx, &[task.0]).await.unwrap();
    sqlx::query("update tasks set state = 'in_progress', next_kind = 'integrate', attempt = 1 where id = $1")
        .bind(task.0)
        .execute(&mut *tx)
        .await
        .unwrap();
    store::integration::queue(&mut tx, feature, task, 1, &"0".repeat(40), "refs/heads/attempt")
        .await
        .unwrap();
    integrate::promote(&mut tx, &features, &mut Signals::default())
        .await
        .unwrap();
    tx.commit().await.unwrap();

    let mut claiming = world.db.begin().await.unwrap();
    let pools = ["turn".to_owned()];
    let taken = store::ready::take(&mut claiming, &pools, &[(feature, 1)], true)
        .await
        .unwrap();
    assert_eq!(taken.len(), 1);
    store::integration::give_turn(&mut claiming, &[task.0], &[DispatchId::new().0])
        .await
        .unwrap();
    let mut promoting = world.db.begin().await.unwrap();
    let promoted = tokio::spawn(async move {
        integrate::promote(&mut promoting, &features, &mut Signals::default()).await?;
        promoting.commit().await
    });
    scene.until(SOMEBODY_WAITS).await;
    claiming.commit().await.unwrap();
    promoted.await.unwrap().unwrap();
    let queued: i64 = sqlx::query_scalar("select count(*) from ready_tasks")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(queued, 0, "a second claim would take the turn from the first");
    world.stop().await;
}
