//! A feature on a git server that needs a login and loses answers.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
    for about in ["ralph/attempts/", "refs/heads/ralph/"] {
        server.fault(Fault::HangUpAfter, Service::Push, about, 1);
        server.fault(Fault::HangUpBefore, Service::Push, about, 1);
    }

    let options = with_login(world.dir());
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
}

/// A worker whose user's credential helper knows the login.
pub fn with_login(dir: &Path) -> WorkerOptions {
    let helper = dir.join("helper");
    std::fs::write(&helper, "#!/bin/sh\necho username=ann; echo password=s3cret\n").unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = dir.join("gitconfig");
    let text = format!("[credential]\n\thelper = {}\n", helper.display());
    std::fs::write(&config, text).unwrap();
    let mut options = WorkerOptions::named("w1").slots(2);
    let config = config.display().to_string();
    options.env.insert("GIT_CONFIG_GLOBAL".to_owned(), config);
    options
}

/// The server refuses more often in a row than a push is retried at once, and than failures in a row call for
/// a person.
#[tokio::test(flavor = "multi_thread")]
async fn a_git_server_that_is_away_for_a_while_costs_no_attempt() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let repository = Repository::create(world.dir(), &[("README", "hello\n")]).unwrap();
    let server = GitServer::start(world.dir(), Login::new("ann", "s3cret"))
        .await
        .unwrap();
    let repository = repository.served_at(server.url("origin.git"));
    let worker = world.worker(&with_login(world.dir())).unwrap();

    let graph = format!(
        "- key: push\n  title: Push\n  description: |\n    @on-kind work @write one.txt one\n    @on-kind work @effect push\n    \
         @on-kind work @wait-for {}\n    @done\n\
         - key: verify\n  title: Verify\n  after: [push]\n  description: |\n    @on-kind work @write two.txt two\n    \
         @on-kind work @effect verify\n    @on-kind work @wait-for {}\n    @done\n",
        world.gate("push").display(),
        world.gate("verify").display(),
    );
    let options = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    // Faults for the first workspace, the push of its work, and the verifier's workspace of the other task.
    server.fault(Fault::Status(503), Service::Fetch, "", 2);
    let submitted = world.submit("away", Some(&repository), &graph, &options).await;
    let (feature, run, _) = submitted.unwrap();
    world.effects_of("push", 1).await.unwrap();
    server.fault(Fault::Status(503), Service::Push, "", 6);
    std::fs::write(world.gate("push"), "").unwrap();
    world.effects_of("verify", 1).await.unwrap();
    server.fault(Fault::Status(503), Service::Fetch, "", 3);
    std::fs::write(world.gate("verify"), "").unwrap();
    let outcome = world.ended(run).await.unwrap();
    assert_eq!(outcome, RunOutcome::Complete, "{}", world.tell().await);
    let outcomes: Vec<(String, String, i64)> = sqlx::query_as(
        "select kind::text, outcome::text, count(*) from dispatches where feature_id = $1 group by 1, 2 order by 1, 2",
    )
    .bind(feature.0)
    .fetch_all(&world.db)
    .await
    .unwrap();
    let expected = [("integrate", "merged"), ("verify", "passed"), ("work", "done")];
    let expected = expected.map(|(kind, outcome)| (kind.to_owned(), outcome.to_owned(), 2));
    assert_eq!(outcomes, expected, "{}", world.tell().await);
    drop(worker);
}
