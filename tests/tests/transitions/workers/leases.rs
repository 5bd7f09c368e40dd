//! Leases and the database's clock.

use std::time::Duration;

use ralph_coordinator::flow::workers::rescue;
use ralph_coordinator::store;
use ralph_tests::harness::{FeatureOptions, World};

use crate::pool::Pool;
use crate::scene::Scene;

/// The server's clock was set back after the claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_from_the_future_ends_one_lease_from_now() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let options = FeatureOptions::default();
    let (feature, ..) = world
        .submit("f", None, "- {key: a, title: A}", &options)
        .await
        .unwrap();
    assert_eq!(pool.claim(1).await.len(), 1);
    sqlx::query("update dispatches set lease_until = now() + interval '1 hour'")
        .execute(&world.db)
        .await
        .unwrap();
    let lease = world.settings.lease;
    rescue::rescue(&world.db, world.settings.lease_ms(), false)
        .await
        .unwrap();
    let left_ms: f64 = sqlx::query_scalar(
        "select extract(epoch from lease_until - now())::float8 * 1000 from dispatches where feature_id = $1",
    )
    .bind(feature.0)
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert!(
        Duration::from_millis(left_ms.max(0.0) as u64) <= lease,
        "{left_ms} ms of {lease:?}"
    );
}

/// The machine slept, the server hung, or its clock was set: no worker could renew a lease meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn leases_that_ended_during_a_clock_gap_are_not_rescued() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit(
            "f",
            None,
            "- {key: a, title: A}\n- {key: b, title: B}",
            &FeatureOptions::default(),
        )
        .await
        .unwrap();
    assert_eq!(pool.claim(2).await.len(), 2);
    sqlx::query(
        "update dispatches
         set lease_until = case when id = (select id from dispatches order by id limit 1) then '-infinity' else now() - interval '1 s' end",
    )
    .execute(&world.db)
    .await
    .unwrap();
    let lease_ms = world.settings.lease_ms();
    let after = async |before| {
        let (now, (lost, _)) = rescue::rescue_after(&world.db, lease_ms, false, (before, 3_000))
            .await
            .unwrap();
        (now, lost)
    };
    let slept = time::OffsetDateTime::now_utc() - Duration::from_secs(60);
    let (now, lost) = after(Some(slept)).await;
    assert_eq!(lost, 1, "only the lease that its own worker gave up");
    assert!(now > slept + Duration::from_secs(30));
    assert_eq!(after(Some(now)).await.1, 1, "no worker renewed since");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_sessions_transcript_is_settled_after_half_an_hour() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, "- {key: a, title: A}", &FeatureOptions::default()).await;
    let of = scene.claim().await;
    let has_ended = async |minutes: i32| {
        sqlx::query(
            "update dispatches
             set state = 'lost', outcome = 'lost', settled_at = now() - make_interval(mins => $1)",
        )
        .bind(minutes)
        .execute(&world.db)
        .await
        .unwrap();
        let mut conn = world.db.acquire().await.unwrap();
        store::dispatch::transcript::settled(&mut conn, &[of.dispatch.0])
            .await
            .unwrap()
    };
    assert!(has_ended(29).await.is_empty(), "the session may report again");
    assert_eq!(has_ended(31).await, [of.dispatch]);
}
