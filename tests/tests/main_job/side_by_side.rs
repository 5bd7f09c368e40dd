//! Two coordinators and many workers on one feature.

use std::fmt::Write as _;

use nix::sys::signal::Signal;
use ralph_tests::harness::{Fault, FeatureOptions, Spawned, WorkerOptions, World};

use super::scene::{ONE, Scene, folder};

const LAYERS: usize = 5;
const WIDTH: usize = 20;

/// Every task waits for two tasks of the layer before.
fn layers() -> String {
    let mut graph = String::new();
    for layer in 0..LAYERS {
        for n in 0..WIDTH {
            let _ = write!(graph, "- key: t{layer}-{n}\n  title: Task {n} of layer {layer}\n");
            if layer > 0 {
                let _ = writeln!(graph, "  after: [t{0}-{n}, t{0}-{1}]", layer - 1, (n + 1) % WIDTH);
            }
            let _ = write!(graph, "  description: |\n    @effect t{layer}-{n}\n    @done\n");
        }
    }
    graph
}

/// Waits until a fault halts a coordinator after it committed a claim, and resumes the coordinator.
async fn served_a_claim(coordinator: &mut Spawned) {
    coordinator.stopped_by_fault().await.unwrap();
    coordinator.signal(Signal::SIGCONT);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_coordinators_and_four_workers_do_a_hundred_tasks_once_each() {
    let world = World::calm().await.unwrap();
    let [mut one, mut other] = ["c1", "c2"].map(|name| {
        let fault = Fault::new("claim.after_commit:stop", &folder(&world, name).join("once"));
        world.coordinator_process(name, Some(&fault)).unwrap()
    });
    for coordinator in [&one, &other] {
        while !coordinator.output().contains("serving") {
            tokio::task::yield_now().await;
        }
    }
    let start = |name| {
        world
            .worker(&WorkerOptions::named(name).slots(4).pool("layers"))
            .unwrap()
    };
    let _workers = ["w1", "w2", "w3", "w4"].map(start);
    let options = FeatureOptions {
        max_parallel: 16,
        ..FeatureOptions::default()
    };
    let scene = Scene::scratch(&world, "layers", &layers(), options).await;
    let both = async { tokio::join!(served_a_claim(&mut one), served_a_claim(&mut other)) };
    tokio::select! {
        _ = both => {}
        () = scene.completes() => panic!("a coordinator served no claim of {}", LAYERS * WIDTH),
    }
    scene.completes().await;
    assert_eq!(scene.tasks.len(), LAYERS * WIDTH);
    assert_eq!(world.effects_lines().len(), LAYERS * WIDTH, "a session ran twice");
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_halted_in_a_claim_halts_no_other() {
    let world = World::calm().await.unwrap();
    let fault = Fault::new("claim.before_commit:stop", &folder(&world, "halted").join("once"));
    let mut halted = world.coordinator_process("halted", Some(&fault)).unwrap();
    let _worker = world
        .worker(&WorkerOptions::named("w").slots(2).pool("one"))
        .unwrap();
    halted.stopped_by_fault().await.unwrap();
    let _other = world.coordinator_process("other", None).unwrap();
    let scene = Scene::submit(&world, "one", ONE).await;
    scene.completes().await;
    halted.signal(Signal::SIGCONT);
    world.check_processes().await.unwrap();
}
