//! A panic in the worker costs the attempt during which it happens, and nothing else.

use ralph_tests::harness::{WorkerOptions, World};

use crate::scene::{ONE, Scene, TWO};

/// A worker with one slot that panics when it first passes the point.
fn panicking(pool: &str, fault: &str) -> WorkerOptions {
    let mut options = WorkerOptions::named("w1").pool(pool);
    options.env.insert("RALPH_PANIC".to_owned(), fault.to_owned());
    options
}

async fn costs_one_attempt(point: &str) {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let mut worker = world.worker(&panicking("panics", point)).unwrap();
    let scene = Scene::submit(&world, "panics", ONE).await;
    scene.completes().await;
    let attempts = scene.attempts().await;
    let ends: Vec<_> = attempts
        .iter()
        .map(|one| (one.0.as_str(), one.1.as_str()))
        .collect();
    assert_eq!(ends, [("settled", "error"), ("settled", "done")], "{attempts:?}");
    let reason = format!("the worker failed: a test wants it at {point}");
    assert!(attempts[0].2.contains(&reason), "{attempts:?}");
    assert!(worker.try_wait().is_none(), "{}", worker.output());
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_before_a_session_costs_its_attempt_and_not_the_slot() {
    costs_one_attempt("session.prepared").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_after_a_session_costs_its_attempt_and_not_the_slot() {
    costs_one_attempt("session.said").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_an_integration_is_tried_again() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let worker = world
        .worker(&panicking("integrates", "integrate.after_rebase"))
        .unwrap();
    let scene = Scene::submit(&world, "integrates", ONE).await;
    scene.completes().await;
    let ends: Vec<(String, String)> = sqlx::query_as(
        "select kind::text, outcome::text from dispatches where feature_id = $1 order by claimed_at, id",
    )
    .bind(scene.feature.0)
    .fetch_all(&world.db)
    .await
    .unwrap();
    let expected = [("work", "done"), ("integrate", "error"), ("integrate", "merged")];
    let expected = expected.map(|(kind, outcome)| (kind.to_owned(), outcome.to_owned()));
    assert_eq!(ends, expected, "{}", worker.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_after_a_report_costs_nothing() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&panicking("behind", "report.spooled")).unwrap();
    let scene = Scene::submit(&world, "behind", TWO).await;
    scene.completes().await;
    let attempts = scene.attempts().await;
    assert!(attempts.iter().all(|one| one.1 == "done"), "{attempts:?}");
    assert_eq!(attempts.len(), 2, "{attempts:?}");
    assert!(
        worker.output().contains("a dispatch panicked"),
        "{}",
        worker.output()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_heartbeats_stop_drains_and_logs_it() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let gate = world.gate("slow");
    let graph = format!(
        "- key: slow\n  title: Take long\n  description: |\n    @effect begun\n    @wait-for {}\n    @write slow.txt slow\n    @done\n",
        gate.display()
    );
    let mut options = panicking("heart", "beat:40");
    options.drain_seconds = 60;
    let mut worker = world.worker(&options).unwrap();
    let scene = Scene::submit(&world, "heart", &graph).await;
    world.effects_of("begun", 1).await.unwrap();
    scene
        .until("select draining and $1::uuid is not null from workers where name = 'w1'")
        .await;
    std::fs::write(&gate, "").unwrap();
    let status = worker.wait().await;
    let output = worker.output();
    assert_eq!(status.code(), Some(1), "{output}");
    assert!(
        output.contains("the heartbeats of this worker stopped"),
        "{output}"
    );
    let _next = world.worker(&WorkerOptions::named("w2").pool("heart")).unwrap();
    scene.completes().await;
    assert_eq!(
        scene.attempts().await,
        [("settled".into(), "done".into(), String::new())]
    );
}
