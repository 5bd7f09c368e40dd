//! Tasks on their way to the feature's branch, with one failed attempt.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_tests::harness::{FeatureOptions, Repository, WorkerOptions, World};

const DIAMOND: &str = r"
- key: base
  title: Lay the base
  description: |
    @write base.txt base
    @effect base
    @say <journal>Laid the base.</journal>
    @done
- key: left
  title: Add the left side
  after: [base]
  description: |
    @write left.txt left
    @effect left
    @done
- key: right
  title: Add the right side
  after: [base]
  description: |
    @on-attempt 1 @fail the first try goes wrong
    @write right.txt right
    @effect right
    @done
- key: top
  title: Close it
  after: [left, right]
  description: |
    @run cat base.txt left.txt right.txt > top.txt
    @effect top
    @done
";

#[tokio::test(flavor = "multi_thread")]
async fn diamond_lands_in_order_on_the_feature_branch() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let repository = Repository::create(world.dir(), &[("README", "hello\n")]).unwrap();
    let worker = world.worker(&WorkerOptions::named("w1").slots(2)).unwrap();
    let (_, run, ids) = world
        .submit("diamond", Some(&repository), DIAMOND, &FeatureOptions::default())
        .await
        .unwrap();
    let outcome = world.ended(run).await.unwrap();
    assert_eq!(outcome, RunOutcome::Complete, "{}", world.tell().await);
    let mut landed = repository.landed("ralph/diamond").unwrap();
    assert_eq!(landed.first(), Some(&ids[0].to_string()));
    assert_eq!(landed.last(), Some(&ids[3].to_string()));
    let mut expected: Vec<_> = ids.iter().map(ToString::to_string).collect();
    landed.sort();
    expected.sort();
    assert_eq!(landed, expected);
    assert_eq!(
        repository.file("ralph/diamond", "top.txt").unwrap(),
        "base\nleft\nright\n"
    );
    assert_eq!(world.effects_lines().len(), 4);
    drop(worker);
}
