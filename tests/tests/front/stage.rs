//! A world with a repository, a coordinator with its API, and a worker.

use ralph_coordinator::flow::Settings;
use ralph_tests::harness::{Repository, Spawned, WorkerOptions, World};
use serde_json::{Value, json};

use crate::caller::{Api, ended};

pub struct Stage {
    // Dropped before the world whose folder it writes to.
    pub worker: Spawned,
    pub world: World,
    pub repository: Repository,
    pub api: Api,
}

impl Stage {
    pub async fn start() -> Self {
        Self::with(&WorkerOptions::named("w"), &[("README.md", "begin\n")], "").await
    }

    /// Starts with this worker, these repository files, and this `.ralph.toml` in the worker's folder.
    pub async fn with(options: &WorkerOptions, files: &[(&str, &str)], config: &str) -> Self {
        Self::with_settings(options, files, config, |_| ()).await
    }

    /// Like [`Self::with`], with changed coordinator settings.
    pub async fn with_settings(
        options: &WorkerOptions,
        files: &[(&str, &str)],
        config: &str,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut world = World::start().await.unwrap();
        change(&mut world.settings);
        std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
        let repository = Repository::create(world.dir(), files).unwrap();
        world.coordinator().await.unwrap();
        let api = Api::start(&world).await;
        let worker = world.worker(options).unwrap();
        Self {
            world,
            repository,
            api,
            worker,
        }
    }

    /// Submits the feature `f`, whose base is the repository.
    pub async fn submit(&self, more: Value) -> Value {
        let mut body = json!({
            "name": "f",
            "verify": false,
            "repo": {
                "address": self.repository.path(),
                "id": "r",
                "base_ref": "main",
                "base_commit": self.repository.head("main").unwrap(),
            },
            "run": {"backoff_ms": 0},
        });
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        let (status, answer) = self.api.post("/features", &body).await;
        assert_eq!(status.as_u16(), 201, "{answer}");
        answer
    }

    /// Waits for the run's end and checks its outcome.
    pub async fn ends(&self, outcome: &str) -> Value {
        let over = ended(&self.api, "f").await;
        let tell = self.world.tell().await;
        assert_eq!(
            over["feature"]["run"]["outcome"],
            outcome,
            "{tell}\n{}",
            self.worker.output()
        );
        over
    }

    pub async fn run_again(&self) {
        let (status, answer) = self.api.post("/features/f/run", &json!({"backoff_ms": 0})).await;
        assert_eq!(status.as_u16(), 200, "{answer}");
    }

    /// Titles of the tasks with their attempts, sorted by title.
    pub async fn titles(&self) -> Vec<(String, u64)> {
        let (_, page) = self.api.get("/features/f/tasks").await;
        let tasks = page["items"].as_array().unwrap().iter();
        let of = |task: &Value| {
            (
                task["title"].as_str().unwrap().to_owned(),
                task["attempt"].as_u64().unwrap(),
            )
        };
        let mut titles: Vec<_> = tasks.map(of).collect();
        titles.sort();
        titles
    }

    pub async fn texts(&self) -> Value {
        self.api.get("/features/f/texts").await.1
    }

    pub fn file(&self, path: &str) -> String {
        self.repository
            .git(&["show", &format!("ralph/f:{path}")])
            .unwrap()
            .trim()
            .to_owned()
    }
}
