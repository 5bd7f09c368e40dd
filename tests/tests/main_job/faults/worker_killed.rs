//! kill -9 of a worker at every named point of claim, session, report and integration: it comes back in one
//! test, and another worker replaces it in the other.

use std::path::Path;

use futures::future::join_all;
use ralph_tests::harness::{Fault, WorkerOptions, World};
use ralph_worker::faults::{DISPATCH_POINTS, POINTS};

use crate::scene::{ONE, PAIR, Scene, TWO, folder, label};

#[derive(Debug, Clone, Copy)]
enum Afterwards {
    Restarted,
    Vanished,
}

/// Waits for the first passage of interest: a worker claims before there is any work.
fn fault(point: &str, once: &Path) -> Fault {
    let nth = if point == "claim.before" { 3 } else { 1 };
    Fault::new(&format!("{point}:kill:{nth}"), once)
}

async fn killed_at(world: &World, point: &str, afterwards: Afterwards) {
    let name = label(point);
    let graph = if integration(&&point) { PAIR } else { TWO };
    let fault = fault(point, &folder(world, &name).join("once"));
    let options = |n: u32| {
        WorkerOptions::named(&format!("{name}-{n}"))
            .slots(2)
            .pool(&name)
            .fault(&fault)
    };
    let mut one = world.worker(&options(1)).unwrap();
    match afterwards {
        Afterwards::Restarted => {
            let scene = Scene::submit(world, &name, graph).await;
            scene.wait_for_kill(&mut one).await;
            let _again = world.worker(&options(1)).unwrap();
            scene.completes().await;
        }
        Afterwards::Vanished => {
            let other = world.worker(&options(2)).unwrap();
            let scene = Scene::submit(world, &name, graph).await;
            let mut both = vec![one, other];
            scene.wait_for_any_kill(&mut both).await;
            scene.completes().await;
        }
    }
}

async fn killed_at_each(points: &[&str], afterwards: Afterwards) {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    join_all(points.iter().map(|point| killed_at(&world, point, afterwards))).await;
    world.check_processes().await.unwrap();
}

fn integration(point: &&&str) -> bool {
    point.starts_with("integrate.")
}

fn integrations() -> Vec<&'static str> {
    POINTS.iter().filter(integration).copied().collect()
}

fn workspaces() -> Vec<&'static str> {
    POINTS
        .iter()
        .filter(|point| !integration(point))
        .copied()
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_around_a_session_and_restarted_loses_nothing() {
    killed_at_each(DISPATCH_POINTS, Afterwards::Restarted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_around_a_session_is_replaced_by_another() {
    killed_at_each(DISPATCH_POINTS, Afterwards::Vanished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_in_its_workspace_and_restarted_loses_nothing() {
    killed_at_each(&workspaces(), Afterwards::Restarted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_in_its_workspace_is_replaced_by_another() {
    killed_at_each(&workspaces(), Afterwards::Vanished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_while_it_integrates_and_restarted_lands_once() {
    killed_at_each(&integrations(), Afterwards::Restarted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_while_it_integrates_is_replaced_and_lands_once() {
    killed_at_each(&integrations(), Afterwards::Vanished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_killed_three_times_by_one_session_leaves_it_to_a_person() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let plain = WorkerOptions::named("killed").pool("killed");
    let scene = Scene::submit(&world, "killed", ONE).await;
    for n in 1..=3 {
        let once = folder(&world, "killed").join(format!("once-{n}"));
        let fault = Fault::new("session.ended:kill", &once);
        let mut worker = world.worker(&plain.clone().fault(&fault)).unwrap();
        scene.wait_for_kill(&mut worker).await;
    }
    let _last = world.worker(&plain).unwrap();
    scene
        .until("select state = 'needs_review' and lost_alone = 3 from tasks where feature_id = $1")
        .await;
    world.check_processes().await.unwrap();
}
