//! Start times and deadlines of features.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::finish;
use ralph_coordinator::store;
use ralph_coordinator::store::feature::priority::{self, Precedence};
use ralph_coordinator::store::view;
use ralph_shared::ids::FeatureId;
use ralph_tests::harness::{FeatureOptions, World};
use time::{Duration, OffsetDateTime};

use crate::pool::Pool;
use crate::scene::turn;

const THREE: &str = "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C}";

async fn submit(world: &World, name: &str, precedence: &Precedence) -> FeatureId {
    let (feature, ..) = world
        .submit(name, None, THREE, &FeatureOptions::default())
        .await
        .unwrap();
    set(world, feature, precedence).await;
    feature
}

async fn set(world: &World, feature: FeatureId, to: &Precedence) {
    let mut conn = world.db.acquire().await.unwrap();
    priority::set(&mut conn, feature, to).await.unwrap();
}

/// A deadline in this many minutes.
fn deadline(minutes: i64) -> Precedence {
    Precedence {
        deadline: Some(Some(OffsetDateTime::now_utc() + Duration::minutes(minutes))),
        ..Precedence::default()
    }
}

async fn claimed(pool: &Pool<'_>, slots: usize) -> Vec<FeatureId> {
    let claimed = pool.claim_once(&vec![["default"]; slots]).await;
    claimed.iter().map(|of| of.feature).collect()
}

async fn notices(world: &World) -> i64 {
    sqlx::query_scalar("select count(*) from notices where event = 'deadline_passed'")
        .fetch_one(&world.db)
        .await
        .unwrap()
}

async fn is_late(world: &World, feature: FeatureId) -> bool {
    let mut conn = world.db.acquire().await.unwrap();
    let shown = view::features(&mut conn, &[feature.0]).await.unwrap().remove(0);
    shown.run.unwrap().late
}

#[tokio::test(flavor = "multi_thread")]
async fn the_earliest_deadline_goes_first_and_start_times_are_kept() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let without = submit(&world, "without", &Precedence::default()).await;
    let later = submit(&world, "later", &deadline(60)).await;
    let sooner = submit(&world, "sooner", &deadline(30)).await;
    let mut not_yet = deadline(10);
    not_yet.not_before = Some(not_yet.deadline.flatten());
    let not_yet = submit(&world, "not-yet", &not_yet).await;
    assert_eq!(claimed(&pool, 1).await, [sooner]);
    // Each feature gets its share before one gets more.
    assert_eq!(claimed(&pool, 1).await, [later]);
    assert_eq!(claimed(&pool, 1).await, [without]);
    assert_eq!(claimed(&pool, 1).await, [sooner]);
    let anytime = Precedence {
        not_before: Some(None),
        ..Precedence::default()
    };
    set(&world, not_yet, &anytime).await;
    assert_eq!(claimed(&pool, 1).await, [not_yet]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passed_deadline_is_notified_once() {
    let world = World::calm().await.unwrap();
    let feature = submit(&world, "f", &deadline(5)).await;
    finish::tick(&world.db).await.unwrap();
    assert_eq!(
        (notices(&world).await, is_late(&world, feature).await),
        (0, false)
    );
    set(&world, feature, &deadline(-1)).await;
    for _ in 0..2 {
        finish::tick(&world.db).await.unwrap();
    }
    assert_eq!((notices(&world).await, is_late(&world, feature).await), (1, true));
    // A changed deadline notifies again.
    set(&world, feature, &deadline(-2)).await;
    finish::tick(&world.db).await.unwrap();
    assert_eq!(notices(&world).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_at_the_deadline_if_the_feature_says_so() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let feature = submit(&world, "f", &deadline(-1)).await;
    finish::tick(&world.db).await.unwrap();
    let running = pool.claim_once(&[["default"]]).await.remove(0);
    let stop = Precedence {
        stop_at_deadline: Some(true),
        ..Precedence::default()
    };
    set(&world, feature, &stop).await;
    assert_eq!(claimed(&pool, 1).await, []);
    let mut conn = world.db.acquire().await.unwrap();
    let run = store::run::last(&mut conn, feature).await.unwrap().unwrap();
    assert_eq!(run.outcome, None);
    let text = format!("<task-done>{}</task-done>", running.task);
    pool.report(vec![pool.session(&running, turn(), &text, 1)]).await;
    let run = store::run::last(&mut conn, feature).await.unwrap().unwrap();
    assert_eq!(run.outcome, Some(RunOutcome::LimitReached));
    assert_eq!(run.reason.as_deref(), Some("the deadline passed"));
    drop(conn);
}
