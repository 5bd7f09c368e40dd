//! What happened first: by the database's clock, not by ids, which workers make by theirs.

use ralph_coordinator::store::view;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::Ended;
use ralph_tests::harness::{FeatureOptions, World};

use super::pool::Pool;
use super::scene::Scene;

/// A slot that asked for long under one id, or whose worker's clock is behind.
#[tokio::test(flavor = "multi_thread")]
async fn later_attempt_with_an_older_id_is_the_later_one() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let mut options = FeatureOptions::default();
    options.run.backoff_ms = 0;
    let (_, _, tasks) = world
        .submit("f", None, "- {key: a, title: A}", &options)
        .await
        .unwrap();
    let older = DispatchId::new();
    let first = pool.claim(1).await.pop().unwrap();
    let turn = || Ended::Turn {
        stop_reason: "end_turn".into(),
    };
    let failed = format!("<task-failed>{}</task-failed>", tasks[0]);
    pool.report(vec![pool.session(&first, turn(), &failed, 0)]).await;
    let second = pool.claim_as(older).await.unwrap();
    assert!(second.dispatch.0 < first.dispatch.0);
    let mut conn = world.db.acquire().await.unwrap();
    let shown = view::dispatches_of_task(&mut conn, tasks[0], 10).await.unwrap();
    let attempts: Vec<i32> = shown.iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, [1, 2]);
    let last = view::dispatch_of_attempt(&mut conn, tasks[0], None)
        .await
        .unwrap();
    assert_eq!(last, Some(second.dispatch));
    let after = view::dispatch_after(&mut conn, tasks[0], Some(first.dispatch))
        .await
        .unwrap();
    assert_eq!(after, Some(second.dispatch));
    drop(conn);
    pool.report(vec![pool.session(&second, turn(), &failed, 0)]).await;
    let third = pool.claim(1).await.pop().unwrap();
    let prompt = Scene::prompt(&third);
    let places = ["#### Attempt 1 ", "#### Attempt 2 "].map(|heading| prompt.find(heading).unwrap());
    assert!(places[0] < places[1], "{prompt}");
    world.stop().await;
}
