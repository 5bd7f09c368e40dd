//! kill -9 of a coordinator before and after every important commit. The first one to pass a point dies
//! there, until one has died at each point. A dead coordinator is started again, so one works alone or two
//! help each other.

use std::path::Path;

use ralph_coordinator::faults::POINTS;
use ralph_tests::harness::{Fault, Spawned, WorkerOptions, World};

use crate::scene::{Scene, TWO, folder};

/// This many features pass every point several times.
const MAX_ROUNDS: u32 = 12;

/// Runs a feature whose first worker dies with a task before any work on it, so that a rescue is needed.
async fn round(world: &World, number: u32) {
    let name = format!("round-{number}");
    let dies = Fault::new("session.assigned:kill", &folder(world, &name).join("dies"));
    let options = WorkerOptions::named(&name).slots(2).pool(&name).fault(&dies);
    let mut worker = world.worker(&options).unwrap();
    let scene = Scene::submit(world, &name, TWO).await;
    scene.wait_for_kill(&mut worker).await;
    let _again = world.worker(&options).unwrap();
    scene.completes().await;
}

/// Runs features until a coordinator has died at each point.
pub(crate) async fn rounds(world: &World, once: &Path) {
    let remaining = || -> Vec<_> {
        POINTS
            .iter()
            .filter(|point| !Fault::is_past(point, once))
            .collect()
    };
    for number in 0..MAX_ROUNDS {
        if remaining().is_empty() {
            return;
        }
        round(world, number).await;
    }
    panic!("no coordinator passed {:?}", remaining());
}

/// Starts `n` coordinators, and each again when it dies.
async fn keep(world: &World, n: usize, fault: &Fault) {
    let start = |index: usize| {
        world
            .coordinator_process(&format!("c{index}"), Some(fault))
            .unwrap()
    };
    let keep_one = async |index: usize| {
        let mut one: Spawned = start(index);
        loop {
            one.killed_by_fault().await.unwrap();
            one = start(index);
        }
    };
    futures::future::join_all((0..n).map(keep_one)).await;
}

async fn killed_everywhere(coordinators: usize) {
    let world = World::start().await.unwrap();
    let once = world.dir().join("once");
    let fault = Fault::kill_at_each(POINTS, &once);
    tokio::select! {
        () = keep(&world, coordinators, &fault) => {}
        () = rounds(&world, &once) => {}
    }
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn coordinator_killed_at_every_commit_is_covered_by_the_other() {
    killed_everywhere(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn coordinator_killed_at_every_commit_continues_after_a_restart() {
    killed_everywhere(1).await;
}
