//! Files that a task without a repository leaves behind.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_shared::ids::TaskId;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, until};

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_task_without_a_repository_stay_where_its_attempt_says() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let _worker = world.worker(&WorkerOptions::named("w1").pool("left")).unwrap();
    let graph = "- key: a\n  title: A\n  description: |\n    @write answer.txt 42\n    @done\n\
                 - {key: b, title: B, description: '@done'}\n";
    let scene = Scene::scratch(&world, "left", graph, FeatureOptions::default()).await;
    scene.ends(RunOutcome::Complete).await;
    let reason = async |task: TaskId| -> Option<String> {
        sqlx::query_scalar("select reason from dispatches where task_id = $1")
            .bind(task.0)
            .fetch_one(&world.db)
            .await
            .unwrap()
    };
    assert_eq!(reason(scene.tasks[1]).await, None, "an empty folder");
    let reason = reason(scene.tasks[0]).await.unwrap();
    assert!(
        reason.contains("answer.txt") && reason.contains("kept on w1 for 7 days"),
        "{reason}"
    );
    let (_, folder) = reason.split_once("days, in ").unwrap();
    let answer = std::fs::read_to_string(std::path::Path::new(folder).join("answer.txt")).unwrap();
    assert_eq!(answer.trim(), "42");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_dead_workers_session_are_kept_by_its_next_instance() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let options = WorkerOptions::named("w1").pool("died");
    let mut worker = world.worker(&options).unwrap();
    let graph = "- key: a\n  title: A\n  description: |\n    @on-attempt 1 @write half.txt 21\n    @effect begun\n    \
                 @on-attempt 1 @hang\n    @done\n";
    let scene = Scene::scratch(&world, "died", graph, FeatureOptions::default()).await;
    world.effects_of("begun", 1).await.unwrap();
    worker.kill();
    let _again = world.worker(&options).unwrap();
    scene.ends(RunOutcome::Complete).await;
    let reason: Option<String> =
        sqlx::query_scalar("select reason from dispatches where task_id = $1 and attempt = 1")
            .bind(scene.tasks[0].0)
            .fetch_one(&world.db)
            .await
            .unwrap();
    let reason = reason.unwrap();
    assert!(
        reason.contains("its worker died") && reason.contains("half.txt") && reason.contains("kept on w1"),
        "{reason}"
    );
    let (_, folder) = reason.split_once("days, in ").unwrap();
    let half = std::fs::read_to_string(std::path::Path::new(folder).join("half.txt")).unwrap();
    assert_eq!(half.trim(), "21");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_dead_worker_is_timed_until_its_last_heartbeat() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let options = WorkerOptions::named("w1").pool("ran");
    let mut worker = world.worker(&options).unwrap();
    let graph =
        "- key: a\n  title: A\n  description: |\n    @effect begun\n    @on-attempt 1 @hang\n    @done\n";
    let scene = Scene::scratch(&world, "ran", graph, FeatureOptions::default()).await;
    world.effects_of("begun", 1).await.unwrap();
    let modified = |path: &str| {
        let path = world.dir().join("w1").join(path);
        std::fs::metadata(path).and_then(|file| file.modified()).unwrap()
    };
    let live = std::fs::read_dir(world.dir().join("w1/live")).unwrap().next();
    let live = format!("live/{}", live.unwrap().unwrap().file_name().display());
    until("a heartbeat while it runs", async || {
        match modified("alive") > modified(&live) {
            true => Ok(()),
            false => Err("no heartbeat".to_owned()),
        }
    })
    .await;
    worker.kill();
    let _again = world.worker(&options).unwrap();
    scene.ends(RunOutcome::Complete).await;
    let (ran_ms, took_ms): (i64, f64) = sqlx::query_as(
        "select duration_ms, (extract(epoch from settled_at - claimed_at) * 1000)::float8
         from dispatches where task_id = $1 and attempt = 1",
    )
    .bind(scene.tasks[0].0)
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert!(ran_ms > 0 && (ran_ms as f64) < took_ms, "{ran_ms} of {took_ms}");
}
