//! A result too long for one message, and a worker that dies before anybody has the result.

use ralph_tests::harness::{Fault, FeatureOptions, WorkerOptions, World};

use crate::scene::{Scene, folder};

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_survives_its_worker_while_no_coordinator_runs() {
    let world = World::calm().await.unwrap();
    let mut coordinator = world.coordinator_process("c1", None).unwrap();
    let name = "long";
    let fault = Fault::new("report.spooled:kill", &folder(&world, name).join("once"));
    let options = WorkerOptions::named(name).pool(name).fault(&fault);
    let mut worker = world.worker(&options).unwrap();
    let graph = format!(
        "- key: only\n  title: Say much\n  description: |\n    @effect begun\n    @wait-for {}\n    @flood 3M\n    \
         @say <journal>Said much.</journal>\n    @done\n",
        world.gate(name).display()
    );
    let scene = Scene::scratch(&world, name, &graph, FeatureOptions::default()).await;
    world.effects_of("begun", 1).await.unwrap();
    coordinator.kill();
    coordinator.wait().await;
    std::fs::write(world.gate(name), "").unwrap();
    // The result is on the disk now, and no coordinator runs.
    worker.killed_by_fault().await.unwrap();
    let _coordinator = world.coordinator_process("c2", None).unwrap();
    let _again = world.worker(&options).unwrap();
    scene.completes().await;
    let attempts = scene.attempts().await;
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    assert_eq!(attempts[0].1, "done", "{attempts:?}");
    let journal: String = sqlx::query_scalar("select journal from dispatches where kind = 'work'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(journal, "Said much.");
}
