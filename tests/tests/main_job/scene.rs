//! What the fault tests have in common.

use std::path::PathBuf;

use ralph_coordinator::domain::states::RunOutcome;
use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_tests::harness::{FeatureOptions, Repository, Spawned, World};

/// Two tasks in a row and one beside them, so that integrations meet; each leaves a file and an effect.
pub const THREE: &str = r"
- key: first
  title: Go first
  description: |
    @write first.txt first
    @effect first
    @done
- key: second
  title: Go second
  after: [first]
  description: |
    @run cat first.txt > second.txt
    @effect second
    @done
- key: beside
  title: Go beside
  description: |
    @write beside.txt beside
    @effect beside
    @done
";

/// A feature in a pool of its own, so that many can live in one world without touching each other.
pub struct Scene<'a> {
    pub world: &'a World,
    pub name: String,
    pub repository: Repository,
    pub feature: FeatureId,
    pub run: RunId,
    pub tasks: Vec<TaskId>,
}

/// A folder of its own for a scene.
pub fn folder(world: &World, name: &str) -> PathBuf {
    let dir = world.dir().join(format!("scene-{name}"));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

impl<'a> Scene<'a> {
    /// Submits `graph` as feature `name` in pool `name`.
    pub async fn submit(world: &'a World, name: &str, graph: &str) -> Self {
        Self::submit_with(world, name, graph, FeatureOptions::default()).await
    }

    /// The same with options, whose pool doesn't count.
    pub async fn submit_with(world: &'a World, name: &str, graph: &str, options: FeatureOptions) -> Self {
        let repository = Repository::create(&folder(world, name), &[("README", "hello\n")]).unwrap();
        let submitted = world
            .submit(name, Some(&repository), graph, &options.pool(name))
            .await;
        let (feature, run, tasks) = submitted.unwrap();
        Self {
            world,
            name: name.to_owned(),
            repository,
            feature,
            run,
            tasks,
        }
    }

    /// The feature's branch.
    pub fn branch(&self) -> String {
        format!("ralph/{}", self.name)
    }

    /// Waits for the run's end, which has to be Complete, and checks everything that must hold then.
    pub async fn completes(&self) {
        let outcome = self.world.ended(self.run).await.unwrap();
        assert_eq!(
            outcome,
            RunOutcome::Complete,
            "{}: {}",
            self.name,
            self.world.tell().await
        );
        self.holds().await;
    }

    /// Checks everything that must hold of a complete feature.
    pub async fn holds(&self) {
        let branch = self.branch();
        let checked = self
            .world
            .check_complete(self.feature, Some((&self.repository, &branch)))
            .await;
        checked.unwrap_or_else(|error| panic!("{}: {error:#}", self.name));
    }

    /// Waits until a fault kills `process`; fails when the run ends before.
    pub async fn is_killed(&self, process: &mut Spawned) {
        tokio::select! {
            killed = process.killed_by_fault() => killed.unwrap(),
            ended = self.world.ended(self.run) => panic!("{}: ended without the fault: {ended:?}", self.name),
        }
    }

    /// Waits until a fault kills one of two; gives its index.
    pub async fn one_is_killed(&self, one: &mut Spawned, other: &mut Spawned) -> usize {
        tokio::select! {
            killed = one.killed_by_fault() => { killed.unwrap(); 0 }
            killed = other.killed_by_fault() => { killed.unwrap(); 1 }
            ended = self.world.ended(self.run) => panic!("{}: ended without the fault: {ended:?}", self.name),
        }
    }
}

/// A point's name as a pool's.
pub fn label(point: &str) -> String {
    point.replace(['.', '_'], "-")
}
