//! A git server whose rules refuse the pushes of attempts.

use std::os::unix::fs::PermissionsExt as _;

use ralph_coordinator::domain::states::RunOutcome;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, until};

use super::scene::{ONE, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn refused_work_leaves_its_worker_after_a_later_push() {
    let mut world = World::calm().await.unwrap();
    let config = "[workspace]\nkeep_files_days = 0\n";
    std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
    world.coordinator().await.unwrap();
    let options = FeatureOptions {
        max_retries: 0,
        ..FeatureOptions::default()
    };
    let refused = Scene::submit_with(&world, "refused", ONE, options).await;
    let hook = refused
        .repository
        .as_ref()
        .unwrap()
        .path()
        .join("hooks/pre-receive");
    std::fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let worker = world
        .worker(&WorkerOptions::named("w1").pool("refused,taken"))
        .unwrap();
    refused.ends(RunOutcome::Blocked).await;
    let (_, outcome, reason) = refused.attempts().await.pop().unwrap();
    assert_eq!(outcome, "error");
    assert!(reason.contains("the server declined it"), "{reason}");
    let folders = || {
        std::fs::read_dir(world.dir().join("w1/git/records"))
            .unwrap()
            .count()
    };
    assert!(folders() > 0, "{}", worker.output());

    // A successful push makes the worker try the refused ones again.
    Scene::submit(&world, "taken", ONE).await.completes().await;
    until("the removal of the refused work", async || match folders() {
        0 => Ok(()),
        n => Err(format!("{n} folders\n{}", worker.output())),
    })
    .await;
    drop(worker);
}
