//! kill -9 of the servers while workers stand at every step of a task.

use std::time::Duration;

use futures::future::join_all;
use nix::sys::signal::Signal;
use ralph_coordinator::flow::Settings;
use ralph_tests::harness::{Fault, Spawned, WorkerOptions, World};

use super::scene::{Scene, TWO, folder, label};

/// A step each of claim, session, report and integration, before and after what it does.
const STEPS: [&str; 9] = [
    "claim.before",
    "session.assigned",
    "session.ended",
    "report.before_spool",
    "report.spooled",
    "report.published",
    "integrate.before_decide",
    "integrate.after_decide",
    "integrate.after_push",
];

/// A world whose leases outlast the halt of its workers.
async fn patient_world() -> World {
    let settings = Settings {
        heartbeat: Duration::from_millis(200),
        lease: Duration::from_secs(8),
        grace: Duration::from_millis(300),
        ..Settings::default()
    };
    World::start_with(settings).await.unwrap()
}

/// A worker that stands at `step` in the middle of a feature.
async fn stand_at<'a>(world: &'a World, step: &str) -> (Scene<'a>, Spawned) {
    let name = label(step);
    let nth = if step == "claim.before" { 2 } else { 1 };
    let fault = Fault::new(&format!("{step}:stop:{nth}"), &folder(world, &name).join("once"));
    let mut worker = [world
        .worker(&WorkerOptions::named(&name).pool(&name).fault(&fault))
        .unwrap()];
    let scene = Scene::submit(world, &name, TWO).await;
    scene.any_is_stopped(&mut worker).await;
    let [worker] = worker;
    (scene, worker)
}

async fn go_on(world: &World, standing: Vec<(Scene<'_>, Spawned)>) {
    for (_, worker) in &standing {
        worker.signal(Signal::SIGCONT);
    }
    join_all(standing.iter().map(|(scene, _)| scene.completes())).await;
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_killed_at_every_step_of_a_task_costs_time_only() {
    let mut world = patient_world().await;
    world.coordinator().await.unwrap();
    let standing = join_all(STEPS.map(|step| stand_at(&world, step))).await;
    world.kill_nats(false).await.unwrap();
    go_on(&world, standing).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_killed_and_its_store_wiped_at_every_step_of_a_task_costs_time_only() {
    let mut world = patient_world().await;
    world.coordinator().await.unwrap();
    let standing = join_all(STEPS.map(|step| stand_at(&world, step))).await;
    world.kill_nats(true).await.unwrap();
    go_on(&world, standing).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn database_killed_at_every_step_of_a_task_costs_time_only() {
    let mut world = patient_world().await;
    // As users have it; tests else trade it for time. Coordinators connect after this.
    sqlx::query("alter database ralph set synchronous_commit = on")
        .execute(&world.db)
        .await
        .unwrap();
    world.coordinator().await.unwrap();
    let standing = join_all(STEPS.map(|step| stand_at(&world, step))).await;
    world.kill_postgres().await.unwrap();
    go_on(&world, standing).await;
    world.stop().await;
}
