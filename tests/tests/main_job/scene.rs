//! Common parts of the fault tests: features that share one world and do not affect each other.

use std::path::PathBuf;

use futures::future::select_all;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_tests::harness::{FeatureOptions, Repository, Spawned, World};

/// One task that leaves a file and an effect.
pub const ONE: &str = r"
- key: only
  title: Do it
  description: |
    @write only.txt only
    @effect only
    @done
";

/// Two tasks in a row.
pub const TWO: &str = r"
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
";

/// Two tasks side by side, so that their integrations meet.
pub const PAIR: &str = r"
- key: left
  title: Go left
  description: |
    @write left.txt left
    @effect left
    @done
- key: right
  title: Go right
  description: |
    @write right.txt right
    @effect right
    @done
";

/// A feature in a pool of its own.
pub struct Scene<'a> {
    pub world: &'a World,
    pub name: String,
    pub repository: Option<Repository>,
    pub feature: FeatureId,
    pub run: RunId,
    pub tasks: Vec<TaskId>,
}

/// Creates a folder for a scene.
pub fn folder(world: &World, name: &str) -> PathBuf {
    let dir = world.dir().join(format!("scene-{name}"));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// A fault point's name as a pool name.
pub fn label(point: &str) -> String {
    point.replace(['.', '_'], "-")
}

impl<'a> Scene<'a> {
    /// Submits `graph` as feature `name` in pool `name`, on a repository of its own.
    pub async fn submit(world: &'a World, name: &str, graph: &str) -> Self {
        Self::submit_with(world, name, graph, FeatureOptions::default()).await
    }

    /// Like [`Self::submit`], with options; their pool is ignored.
    pub async fn submit_with(world: &'a World, name: &str, graph: &str, options: FeatureOptions) -> Self {
        let dir = folder(world, name);
        let make = move || Repository::create(&dir, &[("README", "hello\n")]);
        let repository = tokio::task::spawn_blocking(make).await.unwrap().unwrap();
        Self::start(world, name, graph, options, Some(repository)).await
    }

    /// Like [`Self::submit_with`], without a repository.
    pub async fn scratch(world: &'a World, name: &str, graph: &str, options: FeatureOptions) -> Self {
        Self::start(world, name, graph, options, None).await
    }

    async fn start(
        world: &'a World,
        name: &str,
        graph: &str,
        options: FeatureOptions,
        repository: Option<Repository>,
    ) -> Self {
        let submitted = world
            .submit(name, repository.as_ref(), graph, &options.pool(name))
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

    pub fn head(&self) -> String {
        let repository = self.repository.as_ref().unwrap();
        repository.head(&format!("ralph/{}", self.name)).unwrap()
    }

    /// Waits for a complete run and checks everything that must hold then.
    pub async fn completes(&self) {
        self.ends(RunOutcome::Complete).await;
        self.check().await;
    }

    /// Waits for the run's end with this outcome.
    pub async fn ends(&self, expected: RunOutcome) {
        let outcome = self.world.ended(self.run).await.unwrap();
        assert_eq!(outcome, expected, "{}: {}", self.name, self.world.tell().await);
    }

    /// Checks everything that must hold of a complete feature.
    pub async fn check(&self) {
        let branch = format!("ralph/{}", self.name);
        let landed = self.repository.as_ref().map(|r| (r, branch.as_str()));
        let checked = self.world.check_complete(self.feature, landed).await;
        checked.unwrap_or_else(|error| panic!("{}: {error:#}", self.name));
    }

    /// Waits until a query about the feature gives true.
    pub async fn until(&self, query: &'static str) {
        self.world.until(query, self.feature.0).await.unwrap();
    }

    /// State, outcome and reason of the work dispatches, oldest first.
    pub async fn attempts(&self) -> Vec<(String, String, String)> {
        sqlx::query_as(
            "select state::text, coalesce(outcome::text, ''), coalesce(reason, '')
             from dispatches where feature_id = $1 and kind = 'work' order by claimed_at, id",
        )
        .bind(self.feature.0)
        .fetch_all(&self.world.db)
        .await
        .unwrap()
    }

    async fn ends_without_the_fault(&self) -> ! {
        let ended = self.world.ended(self.run).await;
        panic!(
            "{}: {ended:?} without the fault\n{}",
            self.name,
            self.world.tell().await
        );
    }

    /// Waits until a fault kills `process`; fails when the run ends before.
    pub async fn wait_for_kill(&self, process: &mut Spawned) {
        tokio::select! {
            killed = process.killed_by_fault() => killed.unwrap(),
            never = self.ends_without_the_fault() => never,
        }
    }

    /// Waits until a fault kills one of the processes, and drops that one.
    pub async fn wait_for_any_kill(&self, processes: &mut Vec<Spawned>) {
        let killed = tokio::select! {
            (killed, index, _) = select_all(processes.iter_mut().map(|p| Box::pin(p.killed_by_fault()))) => {
                killed.unwrap();
                index
            }
            never = self.ends_without_the_fault() => never,
        };
        drop(processes.remove(killed));
    }

    /// Waits until a fault halts one of the processes; gives its index.
    pub async fn wait_for_any_halt(&self, processes: &mut [Spawned]) -> usize {
        tokio::select! {
            (stopped, index, _) = select_all(processes.iter_mut().map(|p| Box::pin(p.stopped_by_fault()))) => {
                stopped.unwrap();
                index
            }
            never = self.ends_without_the_fault() => never,
        }
    }
}
