//! A feature on a git server with a login, which loses answers on its way.

use std::os::unix::fs::PermissionsExt;

use ralph_coordinator::domain::states::RunOutcome;
use ralph_git_server::{Fault, GitServer, Login, Service};
use ralph_tests::harness::{FeatureOptions, Repository, WorkerOptions, World};

use crate::scene::PAIR;

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_lands_on_a_server_with_a_login_that_loses_answers() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let repository = Repository::create(world.dir(), &[("README", "hello\n")]).unwrap();
    let server = GitServer::start(world.dir(), Login::new("ann", "s3cret"))
        .await
        .unwrap();
    let repository = repository.served_at(server.url("origin.git"));
    for about in ["ralph-attempts/", "refs/heads/ralph/"] {
        server.fault(Fault::HangUpAfter, Service::Push, about, 1);
        server.fault(Fault::HangUpBefore, Service::Push, about, 1);
    }

    let helper = world.dir().join("helper");
    std::fs::write(&helper, "#!/bin/sh\necho username=ann; echo password=s3cret\n").unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = world.dir().join("gitconfig");
    let text = format!("[credential]\n\thelper = {}\n", helper.display());
    std::fs::write(&config, text).unwrap();
    let mut options = WorkerOptions::named("w1").slots(2);
    let config = config.display().to_string();
    options.env.insert("GIT_CONFIG_GLOBAL".to_owned(), config);
    let worker = world.worker(&options).unwrap();

    let feature = FeatureOptions::default();
    let submitted = world.submit("served", Some(&repository), PAIR, &feature).await;
    let (_, run, ids) = submitted.unwrap();
    let outcome = world.ended(run).await.unwrap();
    assert_eq!(outcome, RunOutcome::Complete, "{}", world.tell().await);
    let mut landed = repository.landed("ralph/served").unwrap();
    landed.sort();
    let mut expected: Vec<_> = ids.iter().map(ToString::to_string).collect();
    expected.sort();
    assert_eq!(landed, expected);
    repository.git(&["fsck", "--strict"]).unwrap();
    drop(worker);
    world.stop().await;
}
