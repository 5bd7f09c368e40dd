//! A running system: servers, a coordinator, a worker with a real agent, and a repository.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_shared::ids::{RunId, TaskId};
use ralph_tests::harness::{FeatureOptions, Repository, Spawned, WorkerOptions, World};

use super::model::Model;
use super::real::Real;

pub struct Stage {
    // Dropped before the world whose folder it writes to.
    worker: Spawned,
    pub world: World,
    pub model: Model,
    pub repository: Repository,
}

/// The end of one dispatch.
#[derive(Debug, sqlx::FromRow)]
pub struct Dispatch {
    pub attempt: i32,
    pub outcome: Option<String>,
    pub model: Option<String>,
    pub agent: Option<String>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub tool_calls: Option<i32>,
}

impl Stage {
    pub async fn with(real: Real, slots: u32) -> Self {
        let mut world = World::start().await.unwrap();
        world.coordinator().await.unwrap();
        let model = Model::start().await;
        let table = real.table("agent", &model, world.dir());
        std::fs::write(world.dir().join(".ralph.toml"), table).unwrap();
        let repository = Repository::create(world.dir(), &[("README", "hello\n")]).unwrap();
        let options = WorkerOptions {
            agent: Some(real.preset().to_owned()),
            ..WorkerOptions::named("w1").slots(slots)
        };
        let worker = world.worker(&options).unwrap();
        Self {
            world,
            model,
            repository,
            worker,
        }
    }

    pub async fn submit(&self, graph: &str, options: &FeatureOptions) -> (RunId, Vec<TaskId>) {
        let submitted = self
            .world
            .submit("feature", Some(&self.repository), graph, options)
            .await;
        let (_, run, ids) = submitted.unwrap();
        (run, ids)
    }

    /// Waits for the run to complete; returns its work dispatches in order.
    pub async fn complete(&self, run: RunId) -> Vec<Dispatch> {
        let outcome = self.world.ended(run).await.unwrap();
        assert_eq!(outcome, RunOutcome::Complete, "{}", self.world.tell().await);
        sqlx::query_as(
            "select attempt, outcome::text, model, agent, input_tokens, output_tokens, tool_calls
             from dispatches where kind = 'work' order by claimed_at",
        )
        .fetch_all(&self.world.db)
        .await
        .unwrap()
    }

    /// Kills the running agents, as a crash or the kernel would.
    pub fn kill_agents(&self) {
        let agents = children(self.worker.pid());
        assert!(!agents.is_empty(), "the worker has no agent");
        for agent in agents {
            kill(Pid::from_raw(agent), Signal::SIGKILL).unwrap();
        }
    }

    pub fn landed(&self, path: &str) -> String {
        self.repository.file("ralph/feature", path).unwrap()
    }
}

fn children(pid: u32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).ok())
        .flat_map(|pids| {
            pids.split_whitespace()
                .map(|pid| pid.parse().unwrap())
                .collect::<Vec<_>>()
        })
        .collect()
}
