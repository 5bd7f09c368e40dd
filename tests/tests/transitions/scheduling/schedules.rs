//! Scheduled features: each firing counts once, even if several coordinators look or one dies.

use jiff::tz::TimeZone;
use ralph_coordinator::domain::budget::levels::{Level, Limit};
use ralph_coordinator::domain::graph::{self, Limits};
use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::scheduling::schedule::Missed;
use ralph_coordinator::domain::states::FeatureState;
use ralph_coordinator::flow::submit::{copy, hook, schedule};
use ralph_coordinator::store;
use ralph_coordinator::store::feature::NewFeature;
use ralph_coordinator::store::feature::schedule::NewSchedule;
use ralph_coordinator::{
    domain::run::defaults::TaskDefaults,
    flow::submit::{self, Start, Submission},
};
use ralph_shared::ids::FeatureId;
use ralph_tests::harness::World;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::pool::Pool;

const GRAPH: &str = "- {key: all, title: All}
- {key: a, title: A, parent: all, priority: -3}
- {key: b, title: B, parent: all, after: [a], paths: [src/**], concurrency: {key: db, limit: 2}}";

fn limits() -> Vec<(Level, Limit)> {
    let limit = Limit {
        cost_usd: Some(2.5),
        tokens: None,
    };
    vec![(Level::Task, limit)]
}

async fn draft(world: &World) -> FeatureId {
    let submission = Submission {
        feature: NewFeature::new("nightly".to_owned(), String::new()),
        graph: graph::load("tasks.yaml", GRAPH, &Limits::file()).unwrap(),
        defaults: TaskDefaults {
            verify: false,
            ..TaskDefaults::default()
        },
        limits: limits(),
        start: Start::Later(RunSettings {
            max_iterations: Some(7),
            ..RunSettings::default()
        }),
    };
    submit::submit(&world.db, &submission).await.unwrap();
    submission.feature.id
}

/// Sets a schedule that was due this long ago.
async fn due(world: &World, feature: FeatureId, cron: Option<&str>, missed: Missed, ago: Duration) {
    let new = NewSchedule {
        id: Uuid::now_v7(),
        cron: cron.map(str::to_owned),
        zone: "Europe/Berlin".to_owned(),
        missed,
        next_at: OffsetDateTime::now_utc() - ago,
    };
    store::feature::schedule::set(&mut world.db.acquire().await.unwrap(), feature, &new)
        .await
        .unwrap();
}

async fn copies(world: &World) -> Vec<String> {
    sqlx::query_scalar("select name from features where name like 'nightly-%' order by id")
        .fetch_all(&world.db)
        .await
        .unwrap()
}

/// Key, parent, priority, open blockers and concurrency key of a task.
type Copied = (String, Option<String>, i32, i32, Option<String>);

#[tokio::test(flavor = "multi_thread")]
async fn each_firing_makes_one_copy_with_two_coordinators() {
    let world = World::calm().await.unwrap();
    let feature = draft(&world).await;
    for round in 1..=5 {
        due(&world, feature, Some("0 3 * * *"), Missed::Once, Duration::SECOND).await;
        let (one, two) = tokio::join!(schedule::tick(&world.db), schedule::tick(&world.db));
        assert_eq!(one.unwrap().0 + two.unwrap().0, 1);
        assert_eq!(copies(&world).await.len(), round);
        // The next firing is at night.
        assert_eq!(schedule::tick(&world.db).await.unwrap().0, 0);
    }
    // A copy equals the submitted feature, and runs.
    let shape: Vec<Copied> = sqlx::query_as(
        "select x.key, p.key, t.priority, t.open_blockers, x.concurrency
         from features f
         join tasks t on t.feature_id = f.id
         join task_texts x on x.task_id = t.id
         left join task_texts p on p.task_id = t.parent_id
         where f.name = $1
         order by x.key",
    )
    .bind(&copies(&world).await[0])
    .fetch_all(&world.db)
    .await
    .unwrap();
    let all = || Some("all".to_owned());
    let expected = [
        ("a".to_owned(), all(), -3, 0, None),
        ("all".to_owned(), None, 0, 0, None),
        ("b".to_owned(), all(), 0, 1, Some("db".to_owned())),
    ];
    assert_eq!(shape, expected);
    let limits: Vec<Option<i32>> = sqlx::query_scalar("select max_iterations from runs")
        .fetch_all(&world.db)
        .await
        .unwrap();
    assert_eq!(limits, [Some(7); 5]);
    let copy: Uuid = sqlx::query_scalar("select id from features where name = $1")
        .bind(&copies(&world).await[0])
        .fetch_one(&world.db)
        .await
        .unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    let given = store::budget::of_feature(&mut conn, FeatureId(copy))
        .await
        .unwrap();
    assert_eq!(given, self::limits());
    drop(conn);
    let pool = Pool::join(&world).await;
    assert_eq!(pool.claim_once(&[["default"]; 8]).await.len(), 5);
}

/// A coordinator that dies during a firing leaves nothing behind, and the next one fires.
#[tokio::test(flavor = "multi_thread")]
async fn a_firing_that_was_not_committed_is_repeated() {
    let world = World::calm().await.unwrap();
    let feature = draft(&world).await;
    due(&world, feature, Some("0 3 * * *"), Missed::Once, Duration::SECOND).await;
    let mut dying = world.db.begin().await.unwrap();
    let id = store::feature::schedule::due(&mut dying, 1).await.unwrap()[0];
    let locked = store::feature::schedule::lock_due(&mut dying, id)
        .await
        .unwrap()
        .unwrap();
    let mut signals = Default::default();
    let made = copy::copy(&mut dying, feature, locked.now, &TimeZone::UTC, &mut signals)
        .await
        .unwrap();
    assert!(made.is_ok());
    // While the first coordinator lives, no other fires.
    assert_eq!(schedule::tick(&world.db).await.unwrap().0, 0);
    drop(dying);
    while schedule::tick(&world.db).await.unwrap().0 == 0 {}
    assert_eq!(copies(&world).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_run_begins_once() {
    let world = World::calm().await.unwrap();
    let feature = draft(&world).await;
    due(&world, feature, None, Missed::Skip, -Duration::HOUR).await;
    assert_eq!(schedule::tick(&world.db).await.unwrap().0, 0);
    due(&world, feature, None, Missed::Skip, Duration::SECOND).await;
    let (one, two) = tokio::join!(schedule::tick(&world.db), schedule::tick(&world.db));
    assert_eq!(one.unwrap().0 + two.unwrap().0, 1);
    let state: FeatureState = sqlx::query_scalar("select state from features where id = $1")
        .bind(feature.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(state, FeatureState::Running);
    assert!(copies(&world).await.is_empty());
    assert_eq!(schedule::tick(&world.db).await.unwrap().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_firings_follow_the_setting_and_paused_schedules_wait() {
    let world = World::calm().await.unwrap();
    let feature = draft(&world).await;
    let days = Duration::days(9);
    due(&world, feature, Some("0 3 * * *"), Missed::Skip, days).await;
    assert_eq!(schedule::tick(&world.db).await.unwrap().0, 0);
    let mut conn = world.db.acquire().await.unwrap();
    let shown = store::feature::schedule::list(&mut conn, Some(feature))
        .await
        .unwrap()
        .remove(0);
    assert!(shown.next_at.unwrap() > OffsetDateTime::now_utc());
    assert!(
        shown
            .problem
            .unwrap()
            .starts_with("no coordinator was running at ")
    );
    due(&world, feature, Some("0 3 * * *"), Missed::Once, days).await;
    assert!(
        store::feature::schedule::pause(&mut conn, feature, true)
            .await
            .unwrap()
    );
    assert_eq!(schedule::tick(&world.db).await.unwrap().0, 0);
    assert!(
        store::feature::schedule::pause(&mut conn, feature, false)
            .await
            .unwrap()
    );
    assert_eq!(schedule::tick(&world.db).await.unwrap().0, 1);
    assert_eq!(schedule::tick(&world.db).await.unwrap().0, 0);
    assert_eq!(copies(&world).await.len(), 1);
    drop(conn);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_delivery_that_arrives_twice_makes_one_copy() {
    let world = World::calm().await.unwrap();
    let feature = draft(&world).await;
    let mut conn = world.db.acquire().await.unwrap();
    assert!(
        store::feature::hook::create(&mut conn, "deploy", feature, "secret")
            .await
            .unwrap()
    );
    assert!(
        !store::feature::hook::create(&mut conn, "deploy", feature, "other")
            .await
            .unwrap()
    );
    drop(conn);
    let fire = |delivery: &'static str| hook::fire(&world.db, "deploy", delivery);
    let (one, two) = tokio::join!(fire("1"), fire("1"));
    let mut fired = [one.unwrap().0, two.unwrap().0];
    fired.sort_by_key(|fired| matches!(fired, hook::Fired::Again(_)));
    let [hook::Fired::Made(made), hook::Fired::Again(again)] = fired else {
        panic!("{fired:?}");
    };
    assert_eq!(again, Some(made));
    // Another delivery in the same minute gets its own name.
    assert!(matches!(fire("2").await.unwrap().0, hook::Fired::Made(_)));
    let names = copies(&world).await;
    assert_eq!(names.len(), 2);
    assert!(names[1].starts_with(&names[0][..names[0].len() - 4]));
    assert_eq!(
        hook::fire(&world.db, "gone", "1").await.unwrap().0,
        hook::Fired::NoHook
    );
}
