//! Checks of the gate on the base survive the death of their worker or coordinator.

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_tests::harness::{Fault, FeatureOptions, WorkerOptions, World};
use ralph_worker::faults::CHECK_POINTS;

use super::scene::{Scene, folder, label};

const ONE: &str = "- key: only\n  title: Do it\n  description: |\n    @write only.txt only\n    @done\n";

fn gated() -> FeatureOptions {
    let options = FeatureOptions::default();
    FeatureOptions {
        run: RunSettings {
            gate: vec!["test -f README".to_owned()],
            ..options.run.clone()
        },
        ..options
    }
}

async fn passed(scene: &Scene<'_>) {
    scene
        .until(
            "select true from features f join tasks t on t.id = f.check_task
             join gate_checks g on g.repo_id = f.repo_id and g.base_commit = f.base_commit and g.passed
             where f.id = $1 and t.state = 'done'",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_check_is_repeated_after_its_worker_was_killed() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    for point in CHECK_POINTS {
        let name = label(point);
        let fault = Fault::new(&format!("{point}:kill:1"), &folder(&world, &name).join("once"));
        let options = WorkerOptions::named(&name).slots(2).pool(&name).fault(&fault);
        let mut worker = world.worker(&options).unwrap();
        let scene = Scene::submit_with(&world, &name, ONE, gated()).await;
        scene.wait_for_kill(&mut worker).await;
        let _again = world.worker(&options).unwrap();
        scene.ends(RunOutcome::Complete).await;
        passed(&scene).await;
    }
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_gate_check_survives_a_killed_coordinator() {
    for point in ["report.before_commit", "report.after_commit"] {
        let world = World::start().await.unwrap();
        let name = label(point);
        let go = world.gate("go");
        let graph = format!(
            "- key: only\n  title: Do it\n  description: |\n    @wait-for {}\n    @write only.txt only\n    @done\n",
            go.display()
        );
        // The session waits, so the first report is the check's.
        let fault = Fault::new(&format!("{point}:kill:1"), &folder(&world, &name).join("once"));
        let mut first = world.coordinator_process("c", Some(&fault)).unwrap();
        let _worker = world
            .worker(&WorkerOptions::named(&name).slots(2).pool(&name))
            .unwrap();
        let scene = Scene::submit_with(&world, &name, &graph, gated()).await;
        scene.wait_for_kill(&mut first).await;
        let _second = world.coordinator_process("d", None).unwrap();
        passed(&scene).await;
        std::fs::write(&go, "").unwrap();
        scene.ends(RunOutcome::Complete).await;
    }
}
