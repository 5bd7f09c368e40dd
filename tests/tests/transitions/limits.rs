//! Limits of sessions, tasks, features, accounts, days and the installation, and the spending that counts
//! against them.

use futures::future::join_all;
use ralph_coordinator::domain::budget::estimate::Before;
use ralph_coordinator::domain::budget::levels::{Level, Limit};
use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::{
    finish::{self, limits},
    workers::rescue,
};
use ralph_coordinator::store;
use ralph_coordinator::store::budget::Tasks;
use ralph_coordinator::store::costs::{By, costs};
use ralph_shared::wire::{Assignment, Basis, DispatchUsage, EndReason, Ended, Usage};
use ralph_tests::harness::{FeatureOptions, World};

use super::caps::{self, cost, graph, reports, share};
use super::pool::Pool;
use super::scene::{Scene, turn};

fn options() -> FeatureOptions {
    caps::limits(None, None)
}

fn used(of: &Assignment, usd: f64) -> DispatchUsage {
    caps::used(of, cost(usd), true)
}

fn usd(cost_usd: f64) -> Limit {
    Limit {
        cost_usd: Some(cost_usd),
        tokens: None,
    }
}

async fn set(world: &World, level: Level, name: &str, cost_usd: f64) {
    let mut conn = world.db.acquire().await.unwrap();
    let key = (level, name.to_owned());
    store::budget::set(&mut conn, &key, Some(Some(cost_usd)), None)
        .await
        .unwrap();
}

async fn looks(world: &World) {
    limits::tick(&world.db, &world.settings).await.unwrap();
}

async fn held(scene: &Scene<'_>) -> Option<String> {
    let mut conn = scene.world.db.acquire().await.unwrap();
    let features = store::view::features(&mut conn, &[scene.feature.0])
        .await
        .unwrap();
    features[0].held_by_limit.clone()
}

async fn notices(world: &World) -> Vec<String> {
    sqlx::query_scalar("select reason from notices where event = 'budget_used' order by at, id")
        .fetch_all(&world.db)
        .await
        .unwrap()
}

/// Features share one limit a day, whichever coordinator serves their claims.
#[tokio::test(flavor = "multi_thread")]
async fn the_shares_of_all_features_stay_within_the_daily_limit() {
    let mut world = World::calm().await.unwrap();
    world.settings.levels.insert(Level::Day, usd(0.5));
    let other = Scene::set(&world, &graph(4), &options()).await;
    let scene = Scene::set(&world, &graph(4), &options()).await;
    let claims = (0..8).map(|_| scene.pool.claim_once(&[["default"]]));
    let got: Vec<Assignment> = join_all(claims).await.into_iter().flatten().collect();
    let given: u64 = got.iter().map(|of| share(of).microusd.unwrap()).sum();
    assert!(got.len() > 1 && given <= 500_000, "{given} for {}", got.len());
    // A share that one session requests is not available to the others.
    let (granted, _) = scene.pool.tells(&[used(&got[0], 0.2)]).await;
    let more: u64 = granted.iter().map(|one| one.share.microusd.unwrap()).sum();
    assert!(
        given - share(&got[0]).microusd.unwrap() + more <= 500_000,
        "{more}"
    );
    other.forget().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_with_the_smallest_share_of_all_levels() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(6), &options()).await;
    let mut last = None;
    for (level, name, limit, expected) in [
        (Level::Installation, "", 8.0, 1_000_000),
        (Level::Feature, "", 2.0, 500_000),
        (Level::Account, "default", 1.2, 300_000),
        (Level::Task, "", 0.12, 120_000),
        (Level::Session, "", 0.1, 100_000),
    ] {
        if let Some(of) = last.take() {
            reports(
                &scene,
                &of,
                Ended::Told {
                    reason: EndReason::Interrupted,
                },
                Usage::default(),
            )
            .await;
            scene.no_pauses().await;
        }
        set(&world, level, name, limit).await;
        let of = scene.claim().await;
        assert_eq!(share(&of).microusd, Some(expected), "{}", level.into_str());
        last = Some(of);
    }
    // The session asks for more than its limit, and gets no more.
    let of = last.unwrap();
    let (granted, _) = scene.pool.tells(&[used(&of, 0.09)]).await;
    assert_eq!(granted[0].share.microusd, Some(100_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daily_limit_below_the_spent_cost_ends_sessions_and_is_named() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(2), &options()).await;
    let of = scene.claim().await;
    scene.pool.tells(&[used(&of, 0.5)]).await;
    looks(&world).await;
    assert_eq!(held(&scene).await, None);
    set(&world, Level::Day, "", 0.25).await;
    looks(&world).await;
    let (_, end) = scene.pool.tells(&[used(&of, 0.5)]).await;
    assert_eq!(end[0].reason, EndReason::RunLimit);
    assert_eq!(
        held(&scene).await.as_deref(),
        Some(
            "the limit of the day is used up: 0.50 USD of 0.25; `ralph budget set day --max-cost USD` changes it"
        )
    );
    let interrupted = Ended::Told {
        reason: EndReason::RunLimit,
    };
    reports(&scene, &of, interrupted, cost(0.5)).await;
    scene.no_pauses().await;
    scene.nothing_is_ready().await;
    // The run waits, and continues once the limit is raised.
    finish::tick(&world.db).await.unwrap();
    set(&world, Level::Day, "", 5.0).await;
    looks(&world).await;
    assert_eq!(held(&scene).await, None);
    scene.goes_first(of.task).await;
    let again = scene.claim().await;
    assert_eq!(again.task, of.task);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_at_its_limit_waits_alone_and_the_feature_names_it() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(2), &options()).await;
    set(&world, Level::Task, "", 0.5).await;
    let of = scene.claim().await;
    scene.pool.tells(&[used(&of, 0.75)]).await;
    looks(&world).await;
    let (_, end) = scene.pool.tells(&[used(&of, 0.75)]).await;
    assert_eq!(end[0].reason, EndReason::RunLimit);
    let interrupted = Ended::Told {
        reason: EndReason::RunLimit,
    };
    reports(&scene, &of, interrupted, cost(0.75)).await;
    scene.no_pauses().await;
    let other = scene.claim().await;
    assert_ne!(other.task, of.task);
    scene.nothing_is_ready().await;
    looks(&world).await;
    let why = held(&scene).await.unwrap();
    let name = of.task.short();
    assert!(
        why.contains(&format!("the limit of task {name} is used up: 0.75 USD of 0.50"))
            && why.contains(&format!("budget set task {name} --max-cost USD")),
        "{why}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_at_its_limit_ends_its_run_after_finished_work_landed() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(2), &options()).await;
    set(&world, Level::Feature, &scene.feature.0.to_string(), 1.0).await;
    let of = scene.claim().await;
    reports(&scene, &of, turn(), cost(1.5)).await;
    looks(&world).await;
    let landing = scene.claim().await;
    assert!(Pool::is_integration(&landing));
    scene.done(&landing).await;
    finish::tick(&world.db).await.unwrap();
    scene.ends(RunOutcome::LimitReached).await;
}

/// Sessions of other accounts continue.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_at_its_limit_stops_only_its_own_sessions() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(2), &options()).await;
    set(&world, Level::Account, "other", 0.1).await;
    let of = scene.claim().await;
    scene.pool.tells(&[used(&of, 0.5)]).await;
    looks(&world).await;
    assert!(scene.pool.tells(&[used(&of, 0.5)]).await.1.is_empty());
    set(&world, Level::Account, "default", 0.1).await;
    looks(&world).await;
    assert_eq!(scene.pool.tells(&[used(&of, 0.5)]).await.1.len(), 1);
    scene.nothing_is_ready().await;
}

/// Spending on a future day, after the clock was set back, counts; spending of earlier days does not.
#[tokio::test(flavor = "multi_thread")]
async fn the_daily_limit_counts_today_and_later_days() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(3), &options()).await;
    set(&world, Level::Day, "", 1.0).await;
    let of = scene.claim().await;
    reports(&scene, &of, turn(), cost(2.0)).await;
    let landing = scene.claim().await;
    scene.done(&landing).await;
    for (days, holds) in [(0, true), (1, true), (-1, false)] {
        sqlx::query("update spending set day = (now() at time zone 'utc')::date + $1")
            .bind(days)
            .execute(&world.db)
            .await
            .unwrap();
        looks(&world).await;
        assert_eq!(held(&scene).await.is_some(), holds, "{days}");
        if holds {
            scene.nothing_is_ready().await;
        }
    }
    scene.claim().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_notified_of_each_part_of_a_limit_once() {
    let world = World::calm().await.unwrap();
    let mut options = options();
    options.run.max_cost_usd = Some(10.0);
    let scene = Scene::set(&world, &graph(2), &options).await;
    set(&world, Level::Day, "", 20.0).await;
    let of = scene.claim().await;
    for (usd, count) in [
        (4.9, 0),
        (5.0, 1),
        (5.5, 1),
        (8.0, 2),
        (9.6, 3),
        (10.5, 5),
        (10.5, 5),
    ] {
        scene.pool.tells(&[used(&of, usd)]).await;
        looks(&world).await;
        looks(&world).await;
        assert_eq!(
            notices(&world).await.len(),
            count,
            "{usd}: {:?}",
            notices(&world).await
        );
    }
    let all = notices(&world).await;
    assert_eq!(all[0], "50 % of the limit of the run is used: 5.00 USD of 10.00");
    assert!(
        all.iter()
            .any(|notice| notice.starts_with("50 % of the limit of the day")),
        "{all:?}"
    );
    // A changed limit notifies again.
    set(&world, Level::Day, "", 12.0).await;
    looks(&world).await;
    assert_eq!(notices(&world).await.len(), 6);
}

/// Usage counts once, however a session reports it or ends, and stays counted after its feature is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn spending_is_counted_once_and_survives_the_features_deletion() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(3), &options()).await;
    let total = async |by| {
        let mut conn = world.db.acquire().await.unwrap();
        let rows = costs(&mut conn, by, None).await.unwrap();
        rows.iter().map(|row| row.cost_usd).sum::<f64>()
    };
    let of = scene.claim().await;
    scene.pool.tells(&[used(&of, 0.25)]).await;
    // Live: usage reported so far.
    assert_eq!(total(By::Model).await, 0.25);
    reports(&scene, &of, turn(), cost(0.5)).await;
    reports(&scene, &of, turn(), cost(0.5)).await;
    assert_eq!(total(By::Model).await, 0.5);
    scene.pool.tells(&[used(&of, 0.75)]).await;
    let landing = scene.claim().await;
    scene.done(&landing).await;
    // Lost, with a late report.
    let of = scene.claim().await;
    scene.pool.tells(&[used(&of, 1.0)]).await;
    sqlx::query("update dispatches set lease_until = '-infinity' where state = 'live'")
        .execute(&world.db)
        .await
        .unwrap();
    rescue::rescue(&world.db, world.settings.lease_ms(), false)
        .await
        .unwrap();
    scene.pool.tells(&[used(&of, 1.25)]).await;
    // An estimate that was too high stays counted: no counter decreases.
    let of = scene.claim().await;
    let about = Usage {
        basis: Some(Basis::Estimated),
        ..cost(0.5)
    };
    reports(&scene, &of, turn(), about).await;
    scene.pool.tells(&[used(&of, 0.25)]).await;
    for by in [By::Model, By::Agent, By::Account, By::Day, By::Kind] {
        assert_eq!(total(by).await, 2.5, "{by:?}");
    }
    assert_eq!(total(By::Feature).await, 2.25);
    assert_eq!(total(By::Task).await, 2.25);
    let mut conn = world.db.acquire().await.unwrap();
    let rows = costs(&mut conn, By::Feature, None).await.unwrap();
    assert_eq!((rows[0].name.as_deref(), rows[0].sessions), (Some("f"), 3));
    store::edit::delete_feature(&mut conn, scene.feature)
        .await
        .unwrap();
    assert_eq!(total(By::Model).await, 2.5);
    assert!(costs(&mut conn, By::Feature, None).await.unwrap().is_empty());
    let levels = store::budget::read(&mut conn, &world.settings.levels, Tasks::Begun, true)
        .await
        .unwrap();
    assert_eq!(levels.used[&(Level::Installation, String::new())].usd, 2.5);
    drop(conn);
}

/// Estimates are based on done tasks, with all of their sessions.
#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_is_based_on_done_tasks_of_the_repository() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(4), &options()).await;
    let repo: String = sqlx::query_scalar("select repo_id from features where id = $1")
        .bind(scene.feature.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    let before = async || {
        let mut conn = world.db.acquire().await.unwrap();
        store::costs::before(&mut conn, &repo).await.unwrap()
    };
    assert_eq!(before().await, Before::default());
    for usd in [1.0, 2.0, 6.0] {
        let of = scene.claim().await;
        reports(&scene, &of, turn(), cost(usd)).await;
        let landing = scene.claim().await;
        scene.done(&landing).await;
    }
    let got = before().await;
    assert_eq!((got.tasks, got.priced), (3, 3));
    let (low, high) = got.usd.unwrap();
    assert!(
        (low - 1.4).abs() < 1e-9 && (high - 4.4).abs() < 1e-9,
        "{low} {high}"
    );
    // A task of unknown cost is not a task without cost.
    let of = scene.claim().await;
    reports(&scene, &of, turn(), Usage::default()).await;
    let landing = scene.claim().await;
    scene.done(&landing).await;
    let got = before().await;
    assert_eq!((got.tasks, got.priced), (4, 3));
    let mut conn = world.db.acquire().await.unwrap();
    let other = store::costs::before(&mut conn, "another").await.unwrap();
    assert_eq!(other, Before::default());
    drop(conn);
}
