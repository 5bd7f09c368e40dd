//! Caps: sessions that spend without end are ended at their run's limits, while they run.

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_shared::agents::prices::{Price, Prices};
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, until};

use crate::scene::Scene;

fn limits(max_cost_usd: Option<f64>, max_tokens: Option<i64>) -> FeatureOptions {
    let default = FeatureOptions::default();
    FeatureOptions {
        max_parallel: 3,
        run: RunSettings {
            max_cost_usd,
            max_tokens,
            ..default.run.clone()
        },
        ..default
    }
}

/// Tasks whose sessions report `spend` sixty times, with pauses long enough for a cancel.
fn spenders(tasks: usize, spend: &str) -> String {
    spenders_every(500, tasks, spend)
}

fn spenders_every(ms: u64, tasks: usize, spend: &str) -> String {
    let updates = format!("    @usage {spend}\n    @wait {ms}\n").repeat(60);
    (0..tasks)
        .map(|n| {
            format!(
                "- key: k{n}\n  title: Spend\n  description: |\n    @write f{n} some work\n{updates}    @done\n"
            )
        })
        .collect()
}

/// Cost, tokens and number of work sessions of a run.
async fn spent(scene: &Scene<'_>) -> (f64, i64, i64) {
    sqlx::query_as(
        "select cost_usd, input_tokens + output_tokens,
                (select count(*) from dispatches d where d.run_id = runs.id and d.kind = 'work')
         from runs where id = $1",
    )
    .bind(scene.run.0)
    .fetch_one(&scene.world.db)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_end_at_the_runs_cost_with_their_work_pushed() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let _worker = world
        .worker(&WorkerOptions::named("w").slots(3).pool("cost"))
        .unwrap();
    let scene = Scene::submit_with(&world, "cost", &spenders(3, "10 2 0.1"), limits(Some(1.0), None)).await;
    scene.ends(RunOutcome::LimitReached).await;
    let (usd, _, sessions) = spent(&scene).await;
    // Each session exceeds its share by at most one update.
    assert!(
        (0.9..1.0 + 0.1 * sessions as f64).contains(&usd),
        "{usd} USD by {sessions} sessions"
    );
    let pushed: Vec<bool> = sqlx::query_scalar(
        "select pushed_ref is not null from dispatches where reason like '%share of the run''s cost%'",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    assert!(
        !pushed.is_empty() && pushed.iter().all(|pushed| *pushed),
        "{}",
        world.tell().await
    );
    world.check_processes().await.unwrap();
}

/// Each session spends 0.1 USD a second and exceeds the limit by at most one update.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_sessions_at_once_end_at_the_runs_cost() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let _worker = world
        .worker(&WorkerOptions::named("w").slots(50).pool("fifty"))
        .unwrap();
    let options = FeatureOptions {
        max_parallel: 50,
        ..limits(Some(50.0), None)
    };
    let graph = spenders_every(1_000, 50, "10 2 0.1");
    let scene = Scene::scratch(&world, "fifty", &graph, options).await;
    scene.ends(RunOutcome::LimitReached).await;
    let (usd, _, sessions) = spent(&scene).await;
    println!("{usd:.2} USD of 50.00 by {sessions} sessions");
    assert!(sessions >= 50, "{sessions}");
    assert!((45.0..=50.0 + 0.1 * sessions as f64).contains(&usd), "{usd}");
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_end_at_the_runs_tokens() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let _worker = world
        .worker(&WorkerOptions::named("w").slots(2).pool("tokens"))
        .unwrap();
    let scene = Scene::scratch(
        &world,
        "tokens",
        &spenders(2, "90 10 0"),
        limits(None, Some(1_000)),
    )
    .await;
    scene.ends(RunOutcome::LimitReached).await;
    let (_, tokens, sessions) = spent(&scene).await;
    assert!(
        (900..1_000 + 100 * sessions).contains(&tokens),
        "{tokens} tokens by {sessions} sessions"
    );
}

/// The agent may spend during its grace and is then killed; its updates until then count.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ignores_cancel_while_it_spends_is_killed() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let _worker = world.worker(&WorkerOptions::named("w").pool("stubborn")).unwrap();
    let graph = "- key: only\n  title: Spend\n  description: |\n    @ignore-cancel\n    @ignore-term\n    @ignore-eof\n    \
                 @spend 100000 0 0 0.1\n";
    let scene = Scene::scratch(&world, "stubborn", graph, limits(Some(0.5), None)).await;
    scene.ends(RunOutcome::LimitReached).await;
    let (usd, _, sessions) = spent(&scene).await;
    // Updates every 50 ms within twice the grace.
    let grace = 2.0 * world.settings.grace.as_secs_f64() / 0.05;
    assert_eq!(sessions, 1);
    assert!((0.5..0.6 + 0.1 * grace + 1.0).contains(&usd), "{usd}");
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_out_of_contact_ends_at_its_share() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let _worker = world.worker(&WorkerOptions::named("w").pool("away")).unwrap();
    let gate = world.gate("go");
    let graph = format!(
        "- key: only\n  title: Spend\n  description: |\n    @effect began\n    @wait-for {}\n    @spend 300 0 0 0.1\n",
        gate.display()
    );
    let scene = Scene::scratch(&world, "away", &graph, limits(Some(0.6), None)).await;
    let (feature, run) = (scene.feature, scene.run);
    world.effects_of("began", 1).await.unwrap();
    world.stop_coordinators();
    std::fs::write(&gate, "").unwrap();
    let spool = world.dir().join("w/spool");
    until("the session's report", async || {
        std::fs::read_dir(&spool).is_ok_and(|mut files| files.next().is_some())
    })
    .await;
    // Nobody could raise its share.
    world.coordinator().await.unwrap();
    let settled = "select exists (select 1 from dispatches where feature_id = $1 and state = 'settled')";
    world.until(settled, feature.0).await.unwrap();
    let usd: f64 =
        sqlx::query_scalar("select cost_usd from dispatches where state = 'settled' order by id limit 1")
            .fetch_one(&world.db)
            .await
            .unwrap();
    assert!((0.2..=0.3 + 1e-9).contains(&usd), "{usd}");
    assert_eq!(world.ended(run).await.unwrap(), RunOutcome::LimitReached);
}

/// Prices of the scripted agent's model. USD per million input and output tokens.
fn prices(input: f64, output: f64) -> Prices {
    let price = Price {
        input,
        output,
        cache_read: None,
        cache_write: None,
    };
    Prices([("sonnet".to_owned(), price)].into())
}

/// The worker meters with the prices of the coordinator's configuration.
#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_an_agent_that_reports_only_tokens_is_limited() {
    let mut world = World::calm().await.unwrap();
    world.settings.prices = prices(1.0, 1.0);
    world.coordinator().await.unwrap();
    let _worker = world
        .worker(&WorkerOptions::named("w").slots(2).pool("silent"))
        .unwrap();
    // Each update reports only tokens, worth 0.1 USD.
    let graph = spenders(2, "90000 10000 0");
    let scene = Scene::scratch(&world, "silent", &graph, limits(Some(1.0), None)).await;
    scene.ends(RunOutcome::LimitReached).await;
    let (usd, _, sessions) = spent(&scene).await;
    assert!(
        (0.9..1.0 + 0.11 * sessions as f64).contains(&usd),
        "{usd} USD by {sessions} sessions"
    );
}

/// Without a configured price too.
#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_an_agent_without_usage_is_estimated_and_limited() {
    let lines = "    @say forty characters that cost ten USD to write\n".repeat(20);
    let graph = format!("- key: only\n  title: Talk\n  description: |\n{lines}    @silent\n");
    for (prices, limit_usd) in [(prices(0.0, 1e6), 30.0), (Prices::default(), 0.005)] {
        let mut world = World::calm().await.unwrap();
        world.settings.prices = prices;
        world.coordinator().await.unwrap();
        let _worker = world.worker(&WorkerOptions::named("w").pool("talks")).unwrap();
        let scene = Scene::scratch(&world, "talks", &graph, limits(Some(limit_usd), None)).await;
        scene.ends(RunOutcome::LimitReached).await;
        let (usd, estimated): (f64, f64) =
            sqlx::query_as("select cost_usd, estimated_usd from runs where id = $1")
                .bind(scene.run.0)
                .fetch_one(&world.db)
                .await
                .unwrap();
        assert!(
            usd >= 0.9 * limit_usd && (estimated - usd).abs() < 1e-6,
            "{estimated} of {usd}"
        );
    }
}
