//! Features of one repository that end at the same time and merge into their base through its gate.

use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_shared::ids::{FeatureId, RunId};
use ralph_shared::wire::MergeHow;
use ralph_tests::harness::{FeatureOptions, Repository, WorkerOptions, World};

/// Passes on each feature alone, and fails on the first two together.
const GATE: &str = "sleep 0.5; ! (test -f a.txt && test -f b.txt)";

async fn submit(world: &World, repository: &Repository, name: &str) -> (FeatureId, RunId) {
    let graph = format!(
        "- key: only\n  title: Write\n  description: |\n    @effect {name}\n    @wait-for {}\n    @write {name}.txt {name}\n    @done\n",
        world.gate("end").display()
    );
    let options = FeatureOptions::default();
    let options = FeatureOptions {
        merge: Some(MergeHow::Merge),
        run: RunSettings {
            gate: vec![GATE.to_owned()],
            gate_may_fail: true,
            ..options.run.clone()
        },
        ..options
    };
    let submitted = world.submit(name, Some(repository), &graph, &options).await;
    let (feature, run, _) = submitted.unwrap();
    (feature, run)
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_at_once_do_not_break_the_base_and_keep_a_persons_push() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let repository = Repository::create(world.dir(), &[("README", "hello\n")]).unwrap();
    let _worker = world.worker(&WorkerOptions::named("w").slots(4)).unwrap();
    let mut features = Vec::new();
    for name in ["a", "b", "c"] {
        features.push(submit(&world, &repository, name).await);
        world.effects_of(name, 1).await.unwrap();
    }
    std::fs::write(world.gate("end"), "").unwrap();
    let merged = "select count(*) > 0 from tasks where role = 'git' and state in ('done', 'needs_review') and $1::uuid is not null";
    world.until(merged, features[0].0.0).await.unwrap();
    let (pushing, pushed) = (repository.clone(), "person.txt");
    // A merge may come between the person's fetch and push.
    let push = move || (0..50).find_map(|_| pushing.commit("main", pushed, "p\n").ok());
    tokio::task::spawn_blocking(push)
        .await
        .unwrap()
        .expect("a successful push");
    let mut outcomes = Vec::new();
    for (_, run) in &features {
        outcomes.push(world.ended(*run).await.unwrap());
    }
    // Of the two features that break the gate together, only the first one is merged.
    let merges: Vec<(String, String, Option<String>)> = sqlx::query_as(
        "select f.name, t.state::text, x.reason
         from dispatches d join tasks t on t.id = d.task_id join features f on f.id = t.feature_id
         join task_texts x on x.task_id = t.id
         where d.kind = 'git' and f.name in ('a', 'b')
         order by d.claimed_at",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    let [(first, done, _), (second, asks, reason)] = &merges[..] else {
        panic!("{merges:?}")
    };
    assert_eq!((done.as_str(), asks.as_str()), ("done", "needs_review"));
    assert!(reason.as_ref().unwrap().contains("test -f a.txt"), "{reason:?}");
    let ended = |name: &str| outcomes[["a", "b", "c"].iter().position(|of| *of == name).unwrap()];
    assert_eq!(ended(first), RunOutcome::Complete);
    assert_eq!(ended(second), RunOutcome::Blocked);
    assert_eq!(ended("c"), RunOutcome::Complete);
    for file in [&format!("{first}.txt"), "c.txt", pushed] {
        repository.file("main", file).unwrap();
    }
    assert!(repository.file("main", &format!("{second}.txt")).is_err());
    let at_once: i64 = sqlx::query_scalar(
        "select count(*) from dispatches d join dispatches o on o.id > d.id and o.kind = d.kind
         where d.kind = 'git' and o.claimed_at < d.settled_at and d.claimed_at < o.settled_at",
    )
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert_eq!(at_once, 0, "two merges ran at once");
}
