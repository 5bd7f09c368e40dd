//! Claims whose answer was lost are repeated, with new claims, and twice in one batch.

use ralph_coordinator::flow::apply::ReportFate;
use ralph_shared::ids::DispatchId;
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;
use crate::scene::turn;

const GRAPH: &str = "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C}\n- {key: d, title: D}";

/// Number of live dispatches, and of tasks that have one.
async fn live(world: &World) -> (i64, i64) {
    sqlx::query_as("select count(*), count(distinct task_id) from dispatches where state = 'live'")
        .fetch_one(&world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_claim_gets_the_same_task_although_others_are_ready() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, GRAPH, &FeatureOptions::default())
        .await
        .unwrap();
    let [first, second, third] = [DispatchId::new(), DispatchId::new(), DispatchId::new()];
    let given = pool.claim_all_as(&[first]).await;
    assert!(given[0].is_some());
    // Repeat the claim between two new ones.
    let again = pool.claim_all_as(&[second, first, third]).await;
    assert_eq!(again[1], given[0]);
    assert_eq!(live(&world).await, (3, 3));
    assert_eq!(
        pool.claim_all_as(&[third, second, first]).await,
        [again[2], again[0], given[0]]
    );
    assert_eq!(live(&world).await, (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_twice_in_a_batch_gets_one_task() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, GRAPH, &FeatureOptions::default())
        .await
        .unwrap();
    let [first, second] = [DispatchId::new(), DispatchId::new()];
    let given = pool.claim_all_as(&[first, second, first]).await;
    assert!(given[0].is_some() && given[1].is_some());
    assert_eq!(given[2], given[0]);
    assert_eq!(live(&world).await, (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_repeated_after_its_report_gets_nothing() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, GRAPH, &FeatureOptions::default())
        .await
        .unwrap();
    let first = DispatchId::new();
    let assigned = pool.claim_as(first).await.unwrap();
    let text = format!("<task-done>{}</task-done>", assigned.task);
    let report = pool.session(&assigned, turn(), &text, 0);
    assert_eq!(pool.report(vec![report]).await, [ReportFate::Applied]);
    let second = DispatchId::new();
    let given = pool.claim_all_as(&[first, second]).await;
    assert_eq!(given[0], None, "the claim's session has ended");
    assert!(given[1].is_some());
    assert_eq!(live(&world).await, (1, 1));
}
