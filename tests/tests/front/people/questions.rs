//! What an agent asks of a person while nobody is there.

use ralph_tests::harness::WorkerOptions;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{said, until_said};

/// An agent that asks one question, and keeps the answer in its workspace.
fn asking() -> String {
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"Which database?","requestedSchema":{"type":"object","properties":{"db":{"type":"string","enum":["Postgres","SQLite"]}}}}}"#;
    let reply = |id: u8, result: &str| format!("read -r l; printf '{{\"id\":{id},\"result\":{result}}}\\n'");
    let script = [
        reply(0, r#"{"protocolVersion":1}"#),
        reply(1, r#"{"sessionId":"s"}"#),
        format!("read -r l; echo '{question}'; read -r l; printf '%s' \"$l\" > answered"),
        r#"printf '{"id":2,"result":{"stopReason":"end_turn"}}\n'"#.to_owned(),
        "exec cat >/dev/null".to_owned(),
    ];
    shell_words::join(["sh", "-c", &script.join("; ")])
}

#[tokio::test]
async fn a_question_is_answered_at_once_and_kept_for_whoever_looks() {
    let config = format!("[agents.asking]\ncommand = {:?}\n", asking());
    let stage = Stage::with(&WorkerOptions::named("w"), &[("README.md", "begin\n")], &config).await;
    let tasks = json!([{"key": "a", "title": "A", "agent": "asking", "max_retries": 0}]);
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks.to_string()}}))
        .await;
    let asked = "Which database? (db: Postgres | SQLite)";
    let shown = until_said(&stage, "task show f/a", "asked, and nobody was there").await;
    assert!(
        shown.contains(&format!("asked, and nobody was there: {asked}")),
        "{shown}"
    );
    let shown: Value = serde_json::from_str(&said(&stage, "task show f/a --output json").await).unwrap();
    assert_eq!(shown["dispatches"][0]["questions"], json!([asked]));
    let told = said(&stage, "logs f/a --attempt 1").await;
    let line = format!("elicitation/create {asked} → declined: nobody is there, decide and say so");
    assert!(told.contains(&line), "{told}");
    let kept: Vec<String> = sqlx::query_scalar("select unnest(asked) from questions")
        .fetch_all(&stage.world.db)
        .await
        .unwrap();
    assert_eq!(kept, [asked]);
    stage.strike().await;
}
