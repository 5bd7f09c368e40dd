//! An agent whose task graph can't be used gets exactly one more turn in the same session (SPEC 2.6).

use ralph_tests::harness::{Spawned, WorkerOptions, World};
use serde_json::{Value, json};

use crate::caller::{Api, ended};

struct Stage {
    // Dropped before the world whose folder it writes to.
    _worker: Spawned,
    world: World,
    api: Api,
}

impl Stage {
    async fn start() -> Self {
        let mut world = World::calm().await.unwrap();
        world.coordinator().await.unwrap();
        let api = Api::start(&world).await;
        let worker = world.worker(&WorkerOptions::named("w").slots(4)).unwrap();
        Self {
            world,
            api,
            _worker: worker,
        }
    }

    async fn submit(&self, name: &str, mut body: Value) {
        body["name"] = name.into();
        body["verify"] = false.into();
        body["max_retries"] = 0.into();
        body["run"] = json!({"backoff_ms": 0});
        let (status, answer) = self.api.post("/features", &body).await;
        assert_eq!(status.as_u16(), 201, "{answer}");
    }

    /// Waits for the run's end; gives its outcome and each task's title, status and attempt.
    async fn ends(&self, name: &str) -> String {
        let over = ended(&self.api, name).await;
        let (_, page) = self.api.get(&format!("/features/{name}/tasks")).await;
        let mut tasks: Vec<String> = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| format!("{} {} {}", task["title"], task["status"], task["attempt"]))
            .collect();
        tasks.sort();
        format!("{} {}", over["feature"]["run"]["outcome"], tasks.join(", ")).replace('"', "")
    }
}

/// Agent script for sessions of `kind`: says `first`, then `second` when the prompt says that `first` can't
/// be used.
fn script(kind: &str, first: &str, second: &str) -> String {
    format!(
        "Something.\n@on-kind {kind} @effect {kind}\n@on-kind {kind} @unless-prompt-has can't be used : @say {first}\n\
         @on-kind {kind} @if-prompt-has can't be used : @say {second}\n"
    )
}

const GOOD: &str = r#"<task-graph>[{key: good, title: Good, description: "@done"}]</task-graph>"#;

#[tokio::test]
async fn a_build_session_corrects_every_kind_of_invalid_graph() {
    let stage = Stage::start().await;
    let crowd: Vec<String> = (0..51).map(|n| format!("{{key: k{n}, title: T}}")).collect();
    let crowd = format!("<task-graph>[{}]</task-graph>", crowd.join(", "));
    let faults = [
        ("malformed", "<task-graph>[{key: a, title</task-graph>"),
        ("unclosed", "<task-graph>[{key: a, title: A}]"),
        ("missing", "I would rather not."),
        ("untitled", "<task-graph>[{key: a}]</task-graph>"),
        (
            "unknown",
            "<task-graph>[{key: a, title: A, after: [b]}]</task-graph>",
        ),
        (
            "circle",
            "<task-graph>[{key: a, title: A, after: [b]}, {key: b, title: B, after: [a]}]</task-graph>",
        ),
        (
            "finished",
            "<task-graph>[{key: a, title: A, after: [plan]}]</task-graph>",
        ),
        (
            "pool",
            "<task-graph>[{key: a, title: A, pool: nowhere}]</task-graph>",
        ),
        ("crowd", crowd.as_str()),
    ];
    for (name, bad) in faults {
        let description = script("build", bad, GOOD);
        stage
            .submit(
                name,
                json!({"description": description, "plan": "Do it.", "review_rounds": 0}),
            )
            .await;
    }
    for (name, _) in faults {
        let ended = stage.ends(name).await;
        assert_eq!(
            ended, "complete Break the plan into tasks done 1, Good done 1",
            "{name}"
        );
    }
}

#[tokio::test]
async fn work_and_review_sessions_correct_their_graphs_too() {
    let stage = Stage::start().await;
    let unknown = "<task-graph>[{key: a, title: A, after: [b]}]</task-graph>";
    let work = script("work", unknown, GOOD);
    let tasks = json!([{"key": "a", "title": "Large", "description": work}]).to_string();
    stage
        .submit("split", json!({"tasks": {"source": "t", "text": tasks}}))
        .await;

    let changes = format!("<review-changes>Not yet. {unknown}</review-changes>");
    let review = script("review", &changes, GOOD);
    let tasks = r#"[{"key": "a", "title": "Small", "description": "@done"}]"#;
    let body = json!({"description": review, "tasks": {"source": "t", "text": tasks}, "review_rounds": 1});
    stage.submit("review", body).await;

    assert_eq!(stage.ends("split").await, "complete Good done 1, Large done 1");
    let reviewed = "complete Good done 1, Review the feature, round 1 done 1, Small done 1";
    assert_eq!(stage.ends("review").await, reviewed);
}

#[tokio::test]
async fn the_second_turn_is_the_last_and_its_error_becomes_the_reason() {
    let stage = Stage::start().await;
    let unknown = "<task-graph>[{key: a, title: A, after: [b]}]</task-graph>";
    let twice = script("build", unknown, unknown);
    stage
        .submit("twice", json!({"description": twice, "plan": "Do it."}))
        .await;
    // Without another graph the first one counts.
    let tired = script("build", unknown, "That is how I see it.");
    stage
        .submit("tired", json!({"description": tired, "plan": "Do it."}))
        .await;
    // A session that needs no graph gets no second turn.
    let done = format!("@effect work\n@say {unknown}\n@done");
    let tasks = json!([{"key": "a", "title": "A", "description": done}]).to_string();
    stage
        .submit("done", json!({"tasks": {"source": "t", "text": tasks}}))
        .await;

    for name in ["twice", "tired"] {
        let ended = stage.ends(name).await;
        assert_eq!(
            ended, "blocked Break the plan into tasks needs_review 1",
            "{name}"
        );
        let (_, page) = stage.api.get(&format!("/features/{name}/tasks")).await;
        let reason = page["items"][0]["reason"].as_str().unwrap();
        assert!(
            reason.contains("task graph can't be used") && reason.contains("`b`"),
            "{reason}"
        );
    }
    assert_eq!(stage.ends("done").await, "complete A done 1");
    let effects = stage.world.effects_lines();
    let count = |name: &str| effects.iter().filter(|line| line.starts_with(name)).count();
    assert_eq!((count("build"), count("work")), (4, 1), "{effects:?}");
}
