//! A worker dies between a session's end and its report: the next instance reports the session's output and
//! usage, and nothing is done twice.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_git_server::{Fault as ServerFault, GitServer, Login, Service};
use ralph_tests::harness::{Fault, FeatureOptions, Repository, WorkerOptions, World};

use crate::faults::git_server::with_login;
use crate::scene::{Scene, folder};

const TELLS: &str = "- key: only\n  title: Do it\n  description: |\n    @on-kind work @write only.txt only\n    \
                     @on-kind work @effect only\n    @on-kind work @usage 100 20 0.5\n    \
                     @on-kind work @say <journal>It was easy.</journal>\n    @on-kind verify @effect judged\n    @done\n";

/// Kind, outcome, journal and input tokens of all dispatches, oldest first.
async fn dispatches(world: &World) -> Vec<(String, String, String, Option<i64>)> {
    sqlx::query_as(
        "select kind::text, coalesce(outcome::text, state::text), coalesce(journal, ''), input_tokens
         from dispatches order by claimed_at, id",
    )
    .fetch_all(&world.db)
    .await
    .unwrap()
}

/// Checks that everything was done once and that the work session's output is stored.
async fn check_reported_once(world: &World, expected: &[(&str, &str)]) {
    let dispatches = dispatches(world).await;
    let ends: Vec<_> = dispatches
        .iter()
        .map(|one| (one.0.as_str(), one.1.as_str()))
        .collect();
    assert_eq!(ends, expected, "{}", world.tell().await);
    let (.., journal, tokens) = &dispatches[0];
    assert_eq!(
        (journal.as_str(), *tokens),
        ("It was easy.", Some(100)),
        "{dispatches:?}"
    );
}

async fn killed_at(point: &str) {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let fault = Fault::new(&format!("{point}:kill"), &folder(&world, "said").join("once"));
    let options = WorkerOptions::named("w1").pool("said").fault(&fault);
    let mut worker = world.worker(&options).unwrap();
    let scene = Scene::submit(&world, "said", TELLS).await;
    scene.wait_for_kill(&mut worker).await;
    let _again = world.worker(&options).unwrap();
    scene.completes().await;
    check_reported_once(&world, &[("work", "done"), ("integrate", "merged")]).await;
    world.effects_of("only", 1).await.unwrap();
    let head = scene.repository.as_ref().unwrap();
    let body = head.git(&["log", "-1", "--format=%B", "ralph/said"]).unwrap();
    assert!(!body.contains("broken off"), "{body}");
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn session_output_survives_a_worker_killed_before_staging() {
    killed_at("session.said").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_output_survives_a_worker_killed_before_its_push() {
    killed_at("snapshot.before_push").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_output_survives_a_worker_killed_before_its_report() {
    killed_at("report.before_spool").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_survives_a_worker_killed_before_its_report() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let once = folder(&world, "judged").join("once");
    let fault = Fault::new("session.said:kill:2", &once);
    let options = WorkerOptions::named("w1").pool("judged").fault(&fault);
    let mut worker = world.worker(&options).unwrap();
    let verified = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    let scene = Scene::submit_with(&world, "judged", TELLS, verified).await;
    scene.wait_for_kill(&mut worker).await;
    let _again = world.worker(&options).unwrap();
    scene.completes().await;
    let expected = [("work", "done"), ("verify", "passed"), ("integrate", "merged")];
    check_reported_once(&world, &expected).await;
    world.effects_of("judged", 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_instance_waits_for_an_unavailable_git_server() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let repository = Repository::create(world.dir(), &[("README", "hello\n")]).unwrap();
    let server = GitServer::start(world.dir(), Login::new("ann", "s3cret"))
        .await
        .unwrap();
    let repository = repository.served_at(server.url("origin.git"));
    let options = with_login(world.dir());
    let fault = Fault::new("session.said:kill", &world.dir().join("once"));
    let mut worker = world.worker(&options.clone().fault(&fault)).unwrap();
    let feature = FeatureOptions::default();
    let submitted = world.submit("away", Some(&repository), TELLS, &feature).await;
    let (_, run, _) = submitted.unwrap();
    worker.killed_by_fault().await.unwrap();
    server.fault(ServerFault::Status(503), Service::Push, "", 6);
    let _again = world.worker(&options).unwrap();
    let outcome = world.ended(run).await.unwrap();
    assert_eq!(outcome, RunOutcome::Complete, "{}", world.tell().await);
    check_reported_once(&world, &[("work", "done"), ("integrate", "merged")]).await;
}
