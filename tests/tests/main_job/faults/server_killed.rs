//! kill -9 of the servers while workers or a coordinator are halted at every named step of a task.

use std::time::Duration;

use futures::future::join_all;
use nix::sys::signal::Signal;
use ralph_coordinator::flow::Settings;
use ralph_tests::harness::{Fault, Spawned, WorkerOptions, World};
use ralph_worker::faults::{DISPATCH_POINTS, POINTS};

use super::coordinator_killed::rounds;
use crate::scene::{PAIR, Scene, TWO, folder, label};

#[derive(Debug, Clone, Copy)]
enum Server {
    Broker,
    BrokerAndStore,
    Database,
}

impl Server {
    async fn kill(self, world: &World) {
        match self {
            Self::Broker => world.kill_nats(false).await.unwrap(),
            Self::BrokerAndStore => world.kill_nats(true).await.unwrap(),
            Self::Database => world.kill_postgres().await.unwrap(),
        }
    }

    /// A world whose leases outlast the halts.
    async fn world(self) -> World {
        let settings = Settings {
            heartbeat: Duration::from_millis(200),
            lease: Duration::from_secs(10),
            grace: Duration::from_millis(300),
            ..Settings::default()
        };
        let world = World::start_with(settings).await.unwrap();
        if matches!(self, Self::Database) {
            // As in production; other tests turn it off for speed. Coordinators connect after this.
            sqlx::query("alter database ralph set synchronous_commit = on")
                .execute(&world.db)
                .await
                .unwrap();
        }
        world
    }
}

fn integrates(step: &str) -> bool {
    step.starts_with("integrate.")
}

/// Halts a worker at `step` in the middle of a feature.
async fn halt_at<'a>(world: &'a World, step: &str) -> (Scene<'a>, Spawned) {
    let name = label(step);
    let nth = if step == "claim.before" { 3 } else { 1 };
    let fault = Fault::new(&format!("{step}:stop:{nth}"), &folder(world, &name).join("once"));
    let options = WorkerOptions::named(&name).slots(2).pool(&name).fault(&fault);
    let mut worker = [world.worker(&options).unwrap()];
    let graph = if integrates(step) { PAIR } else { TWO };
    let scene = Scene::submit(world, &name, graph).await;
    scene.wait_for_any_halt(&mut worker).await;
    let [worker] = worker;
    (scene, worker)
}

async fn dies_under_workers(server: Server, steps: &[&str]) {
    let mut world = server.world().await;
    world.coordinator().await.unwrap();
    let halted = join_all(steps.iter().map(|step| halt_at(&world, step))).await;
    server.kill(&world).await;
    for (_, worker) in &halted {
        worker.signal(Signal::SIGCONT);
    }
    join_all(halted.iter().map(|(scene, _)| scene.completes())).await;
    drop(halted);
    world.check_processes().await.unwrap();
}

async fn dies_around_sessions(server: Server) {
    let before_landing = POINTS.iter().filter(|point| !integrates(point));
    let steps: Vec<&str> = DISPATCH_POINTS.iter().chain(before_landing).copied().collect();
    dies_under_workers(server, &steps).await;
}

async fn dies_in_integrations(server: Server) {
    let steps: Vec<&str> = POINTS.iter().filter(|point| integrates(point)).copied().collect();
    dies_under_workers(server, &steps).await;
}

/// Halts the only coordinator at each of its points in turn, and kills the server meanwhile.
async fn dies_under_a_coordinator(server: Server) {
    let world = server.world().await;
    let once = world.dir().join("once");
    let fault = Fault::halt_at_each(ralph_coordinator::faults::POINTS, &once);
    let mut coordinator = world.coordinator_process("halted", Some(&fault)).unwrap();
    let at_each_halt = async {
        loop {
            coordinator.stopped_by_fault().await.unwrap();
            server.kill(&world).await;
            coordinator.signal(Signal::SIGCONT);
        }
    };
    tokio::select! {
        () = at_each_halt => {}
        () = rounds(&world, &once) => {}
    }
    drop(coordinator);
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_killed_at_every_step_around_a_session_costs_time_only() {
    dies_around_sessions(Server::Broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_killed_at_every_step_of_an_integration_costs_time_only() {
    dies_in_integrations(Server::Broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_wiped_at_every_step_around_a_session_costs_time_only() {
    dies_around_sessions(Server::BrokerAndStore).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_wiped_at_every_step_of_an_integration_costs_time_only() {
    dies_in_integrations(Server::BrokerAndStore).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn database_killed_at_every_step_around_a_session_costs_time_only() {
    dies_around_sessions(Server::Database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn database_killed_at_every_step_of_an_integration_costs_time_only() {
    dies_in_integrations(Server::Database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_killed_at_every_commit_of_a_coordinator_costs_time_only() {
    dies_under_a_coordinator(Server::Broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_wiped_at_every_commit_of_a_coordinator_costs_time_only() {
    dies_under_a_coordinator(Server::BrokerAndStore).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn database_killed_at_every_commit_of_a_coordinator_costs_time_only() {
    dies_under_a_coordinator(Server::Database).await;
}
