//! A server whose rules refuse what attempts push.

use std::os::unix::fs::PermissionsExt as _;

use ralph_coordinator::domain::states::RunOutcome;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, until};

use super::scene::{ONE, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_rule_refuses_does_not_stay_with_its_worker_for_ever() {
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

    // A push that goes well has the others tried again.
    Scene::submit(&world, "taken", ONE).await.completes().await;
    until("the end of what was refused", async || match folders() {
        0 => Ok(()),
        n => Err(format!("{n} folders\n{}", worker.output())),
    })
    .await;
    drop(worker);
    world.stop().await;
}
