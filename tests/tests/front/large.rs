//! Texts of a million characters.

use serde_json::{Value, json};

use crate::caller::ADMIN;
use crate::stage::Stage;

/// A plan with numbered lines, so that a lost line is noticed.
fn plan() -> String {
    let lines = (0..25_000).map(|n| format!("Step {n:06}: as the one before, but another one."));
    lines.collect::<Vec<_>>().join("\n")
}

const BUILD: &str = "@on-kind build @say <<GRAPH\n<task-graph>\n- key: a\n  title: A\n  description: |\n    @run tail -n1 .ralph/context/plan.md > a.txt\n    \
    @done\n</task-graph>\nGRAPH\n";

#[tokio::test]
async fn a_plan_of_a_megabyte_is_stored_whole_and_prompts_stay_bounded() {
    let stage = Stage::start().await;
    let plan = plan();
    assert!(plan.len() > 1_000_000);
    stage
        .submit(json!({"description": BUILD, "plan": plan, "review_rounds": 0}))
        .await;
    stage.ends("complete").await;
    assert_eq!(stage.texts().await["plan"], Value::from(plan.as_str()));
    // The session had the whole plan in its folder; the branch got none of it.
    assert_eq!(
        stage.file("a.txt"),
        "Step 024999: as the one before, but another one."
    );
    let landed = stage
        .repository
        .git(&["ls-tree", "-r", "--name-only", "ralph/f"])
        .unwrap();
    assert_eq!(landed.trim(), "README.md\na.txt");
    let (_, page) = stage.api.get("/features/f/tasks").await;
    for task in page["items"].as_array().unwrap() {
        let (_, prompt) = stage
            .api
            .get(&format!("/tasks/{}/prompt", task["id"].as_str().unwrap()))
            .await;
        let prompt = prompt["body"].as_str().unwrap();
        assert!(
            prompt.contains("Step 000000") && prompt.contains("`.ralph/context/plan.md` in this folder"),
            "{}",
            task["title"]
        );
        assert!(prompt.chars().count() < 40_000, "{}", task["title"]);
    }

    // A text above the bound is refused and changes nothing; another text replaces the plan whole.
    let put = async |text: &str| {
        let body = json!({"text": text}).to_string();
        let path = "/api/v1/features/f/texts/plan";
        let answer = stage
            .api
            .send(reqwest::Method::PUT, path, Some(ADMIN), Some(body))
            .await;
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let (status, reply) = put(&"x".repeat(65 << 20)).await;
    assert_eq!(status, 413, "{reply}");
    assert!(reply.contains("at most 64 MB"), "{reply}");
    assert_eq!(stage.texts().await["plan"], Value::from(plan.as_str()));
    let other = plan.replace("Step", "Stage");
    let (status, reply) = put(&other).await;
    assert_eq!(status, 200, "{reply}");
    assert_eq!(stage.texts().await["plan"], Value::from(other));
}
