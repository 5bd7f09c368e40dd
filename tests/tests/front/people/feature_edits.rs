//! Edits of an existing feature.

use ralph_tests::harness::World;
use reqwest::Method;
use serde_json::{Value, json};

use crate::caller::{ADMIN, Api};
use crate::stage::Stage;
use crate::typed::{output, stdout_of};

const GRAPH: &str = "- {key: a, title: A, pool: nowhere}\n- {key: b, title: B, after: [a], max_retries: 7}";

async fn edit(api: &Api, body: Value) -> (u16, Value) {
    let response = api
        .send(
            Method::PATCH,
            "/api/v1/features/f",
            Some(ADMIN),
            Some(body.to_string()),
        )
        .await;
    (
        response.status().as_u16(),
        response.json::<Value>().await.unwrap(),
    )
}

#[tokio::test]
async fn a_running_feature_is_edited_with_its_run_and_waiting_tasks() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", GRAPH).await;
    let change = json!({
        "description": "Anew",
        "before": "",
        "max_parallel": 8,
        "review_rounds": 1,
        "max_retries": 7,
        "verify": false,
        "run": {"cost_usd": 50.0, "tokens": 0, "agent": "fast", "model_strategy": "escalate"},
    });
    let (status, done) = edit(&api, change).await;
    assert_eq!((status, &done), (200, &json!({"count": 2})), "{done}");

    let (_, shown) = api.get("/features/f").await;
    let run = &shown["run"];
    for (what, is, expected) in [
        ("max_parallel", &shown["max_parallel"], json!(8)),
        ("cost", &run["limits"]["cost_usd"], json!(50.0)),
        ("iterations", &run["limits"]["iterations"], json!(30)),
        ("time", &run["limits"]["time_ms"], json!(86_400_000)),
        ("tokens", &run["limits"]["tokens"], json!(null)),
        ("agent", &run["agent"], json!("fast")),
        ("strategy", &run["model_strategy"], json!("escalate")),
    ] {
        assert_eq!(*is, expected, "{what}");
    }
    let (_, texts) = api.get("/features/f/texts").await;
    assert_eq!(texts["description"], "Anew");
    for key in ["a", "b"] {
        let (_, task) = api.get(&format!("/tasks/f%2F{key}")).await;
        assert_eq!(
            (&task["verify"], &task["max_retries"]),
            (&json!(false), &json!(7)),
            "{key}"
        );
    }
    let (_, log) = api.get("/tasks/f%2Fb/log").await;
    let log = log["items"].as_array().unwrap();
    assert!(log.iter().any(|entry| entry["what"] == "edit"), "{log:?}");
    let (agent, grows): (String, bool) =
        sqlx::query_as("select q.agent, r.limit_grows from ready_tasks q cross join runs r")
            .fetch_one(&world.db)
            .await
            .unwrap();
    assert_eq!((agent.as_str(), grows), ("fast", true));

    // The same edit again changes no task.
    let (_, done) = edit(&api, json!({"max_retries": 7})).await;
    assert_eq!(done, json!({"count": 0}));
    for (wrong, status) in [
        (json!({}), 422),
        (json!({"run": {}}), 422),
        (json!({"max_parallel": 0}), 400),
        (json!({"max_retries": 101}), 400),
        (json!({"review_rounds": -1}), 400),
        (json!({"run": {"cost_usd": -1}}), 400),
        (json!({"run": {"model_strategy": "fixed"}}), 422),
        (json!({"priority": 3}), 400),
        (json!({"description": "Mine", "before": "theirs"}), 409),
    ] {
        let (is, problem) = edit(&api, wrong.clone()).await;
        assert_eq!(is, status, "{wrong}: {problem}");
    }
    let (_, texts) = api.get("/features/f/texts").await;
    assert_eq!(texts["description"], "Anew");
}

#[tokio::test]
async fn edited_limits_apply_to_a_drafts_first_run_and_a_stopped_run() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let draft = json!({
        "name": "f",
        "draft": true,
        "description": "Old",
        "run": {"iterations": 9},
    });
    let (status, answer) = api.post("/features", &draft).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    let change = json!({"description": "New", "max_retries": 1, "run": {"cost_usd": 2.5}});
    assert_eq!(edit(&api, change).await.0, 200);
    let (status, answer) = api.post("/features/f/run", &json!({})).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    let (_, shown) = api.get("/features/f").await;
    let limits = &shown["run"]["limits"];
    assert_eq!(
        (&limits["iterations"], &limits["cost_usd"]),
        (&json!(9), &json!(2.5))
    );
    // The first step has the current description, and gets a new one while nobody works on it.
    let first_step = async || -> (String, i32) {
        sqlx::query_as(
            "select x.description, t.max_retries from tasks t join task_texts x on x.task_id = t.id where t.role = 'spec'",
        )
        .fetch_one(&world.db)
        .await
        .unwrap()
    };
    assert_eq!(first_step().await, ("New".to_owned(), 1));
    assert_eq!(edit(&api, json!({"description": "Newest"})).await.0, 200);
    assert_eq!(first_step().await.0, "Newest");

    let (status, _) = api.post("/features/f/stop", &json!({})).await;
    assert_eq!(status.as_u16(), 200);
    // After a stop, a person may set other limits for the next run.
    assert_eq!(edit(&api, json!({"run": {"cost_usd": 5.0}})).await.0, 200);
    let (_, shown) = api.get("/features/f").await;
    assert_eq!(
        (&shown["run"]["limits"]["cost_usd"], &shown["condition"]["word"]),
        (&json!(5.0), &json!("stopped"))
    );
    assert_eq!(edit(&api, json!({"max_parallel": 2})).await.0, 200);
    api.post("/features/f/cancel", &json!({})).await;
    let (status, problem) = edit(&api, json!({"max_parallel": 3})).await;
    let why = problem["detail"].as_str().unwrap().to_owned();
    assert!(status == 409 && why.contains("is cancelled"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_is_edited_by_command() {
    let stage = Stage::start().await;
    stage.api.submit("f", GRAPH).await;
    let line =
        "feature edit f --max-cost 3.5 --max-time 2h --max-parallel 2 --verify false --description First";
    assert_eq!(stdout_of(&stage, line).await, "edited f\n");
    let done: Value =
        serde_json::from_str(&stdout_of(&stage, "feature edit f --review 1 --output json").await).unwrap();
    assert_eq!(done["count"], 0);
    let (_, shown) = stage.api.get("/features/f").await;
    let limits = &shown["run"]["limits"];
    assert_eq!(
        (&limits["cost_usd"], &limits["time_ms"], &shown["max_parallel"]),
        (&json!(3.5), &json!(7_200_000), &json!(2))
    );
    // Only a person who has read the current text may replace it.
    let refused = output(&stage, "feature edit f --description Second").await;
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && stderr.contains("--replaces"),
        "{stderr}"
    );
    stdout_of(&stage, "feature edit f --description Second --yes").await;
    let (_, texts) = stage.api.get("/features/f/texts").await;
    assert_eq!(texts["description"], "Second");
    let nothing = output(&stage, "feature edit f").await;
    let stderr = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(
        nothing.status.code() == Some(2) && stderr.contains("nothing to change"),
        "{stderr}"
    );
}
