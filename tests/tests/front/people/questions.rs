//! Questions of agents, and people's answers and messages.

use std::sync::Arc;
use std::time::Duration;

use ralph_coordinator::prompt::{PromptOptions, Templates};
use ralph_tests::harness::{WorkerOptions, until};
use serde_json::{Value, json};

use crate::caller::Api;
use crate::stage::Stage;
use crate::typed::{output, started, stdout_of, wait_for_output, wait_for_words};

/// Command of an agent that asks over the protocol, stores the answer in its workspace, and ends.
fn eliciting() -> String {
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

/// Script of an agent that asks until its prompt has the answer, and then writes the answer down.
const ASKS: &str = "@unless-prompt-has Postgres : @say <question choices=\"Postgres|SQLite\">Which \\e[31mdatabase?</question>\n\
                    @if-prompt-has Postgres : @write db.txt Postgres\n\
                    @if-prompt-has Postgres : @done\n";

/// A stage whose sessions wait `wait_s` seconds for a person.
async fn stage(wait_s: u64, config: &str) -> Stage {
    let options = WorkerOptions::named("w");
    let asks = PromptOptions {
        people: wait_s > 0,
        ..PromptOptions::default()
    };
    Stage::with_settings(&options, &[("README.md", "begin\n")], config, |settings| {
        settings.question_wait = Duration::from_secs(wait_s);
        settings.templates = Arc::new(Templates::load(None, asks).unwrap());
    })
    .await
}

async fn asking(stage: &Stage, script: &str) {
    let tasks = json!([{"key": "a", "title": "A", "description": script, "max_retries": 0}]);
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks.to_string()}}))
        .await;
}

/// Waits for a question in the inbox.
pub async fn asked(api: &Api) -> Value {
    until("a question in the inbox", async || {
        let (_, inbox) = api.get("/inbox").await;
        let items = inbox["items"].as_array().cloned().unwrap_or_default();
        let found = items.into_iter().find(|item| item["kind"] == "question");
        found.ok_or(inbox)
    })
    .await
}

#[tokio::test]
async fn a_session_waits_for_an_answer_and_continues_with_it() {
    let stage = stage(600, "").await;
    asking(&stage, ASKS).await;
    let item = asked(&stage.api).await;
    // A command that waits for the run shows the question too.
    let waiting = started(&stage, "wait", "feature wait f");
    wait_for_words(
        &waiting,
        "A waits for your answer: Which database? (Postgres | SQLite)",
    )
    .await;
    wait_for_words(
        &waiting,
        &format!("ralph task answer {}", item["task"].as_str().unwrap()),
    )
    .await;
    assert_eq!(item["reason"], "Which database? (Postgres | SQLite)");
    assert!(item["question"]["waits_until"].is_string(), "{item}");
    assert_eq!(item["question"]["choices"], json!(["Postgres", "SQLite"]));
    let shown = stdout_of(&stage, "inbox").await;
    assert!(shown.contains("ralph task answer t-"), "{shown}");
    stdout_of(&stage, "task answer f/a --choice 1").await;
    stage.ends("complete").await;
    assert_eq!(stage.file("db.txt"), "Postgres");
    let (_, task) = stage.api.get("/tasks/f%2Fa").await;
    let sessions = task["dispatches"].as_array().unwrap();
    let works = sessions.iter().filter(|one| one["kind"] == "work").count();
    assert_eq!(works, 1, "the same session continued: {task}");
    assert_eq!(sessions[0]["questions"][0]["answer"], "Postgres");
    let log = wait_for_output(&stage, "logs f/a --attempt 1", "says: Postgres").await;
    assert!(log.contains("it waits for a person: Which database?"), "{log}");
    // A second answer is refused.
    let twice = output(&stage, "task answer f/a SQLite").await;
    let why = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert!(
        !twice.status.success() && why.contains("answered that already"),
        "{why}"
    );
}

#[tokio::test]
async fn an_unanswered_session_ends_and_the_next_one_has_the_answer() {
    let stage = stage(1, "").await;
    asking(&stage, ASKS).await;
    let over = stage.ends("blocked").await;
    assert_eq!(over["feature"]["tasks"]["needs_review"], 1, "{over}");
    let item = asked(&stage.api).await;
    assert!(item["question"]["waits_until"].is_null(), "{item}");
    let (_, inbox) = stage.api.get("/inbox").await;
    let of_task = |item: &&Value| item["task"].is_string();
    let items: Vec<&Value> = inbox["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(of_task)
        .collect();
    assert_eq!(items.len(), 1, "the inbox lists it once: {inbox}");
    let refused = output(&stage, "task answer f/a --choice 3").await;
    assert!(!refused.status.success());
    stdout_of(&stage, "task answer f/a postgres").await;
    stage.ends("complete").await;
    let (_, task) = stage.api.get("/tasks/f%2Fa").await;
    assert_eq!(task["attempt"], 2, "{task}");
    assert_eq!(task["dispatches"][0]["failure"], "unanswered");
    assert_eq!(stage.file("db.txt"), "Postgres");
}

#[tokio::test]
async fn an_answer_reaches_a_session_over_a_restart_of_the_coordinator() {
    let mut stage = stage(600, "").await;
    asking(&stage, ASKS).await;
    asked(&stage.api).await;
    stage.world.stop_coordinators();
    stdout_of(&stage, "task answer f/a Postgres").await;
    stage.world.coordinator().await.unwrap();
    stage.ends("complete").await;
    let (_, task) = stage.api.get("/tasks/f%2Fa").await;
    assert_eq!(task["attempt"], 1, "{task}");
    assert_eq!(stage.file("db.txt"), "Postgres");
}

#[tokio::test]
async fn an_answer_after_the_sessions_death_reaches_the_next_one() {
    let mut stage = stage(600, "").await;
    asking(&stage, ASKS).await;
    asked(&stage.api).await;
    stage.worker.kill();
    stdout_of(&stage, "task answer f/a Postgres").await;
    stage.worker = stage.world.worker(&WorkerOptions::named("other")).unwrap();
    stage.ends("complete").await;
    let (_, task) = stage.api.get("/tasks/f%2Fa").await;
    assert_eq!(task["attempt"], 2, "{task}");
    assert_eq!(stage.file("db.txt"), "Postgres");
}

#[tokio::test]
async fn an_elicitation_is_answered_by_a_person() {
    let config = format!("[agents.asking]\ncommand = {:?}\n", eliciting());
    let stage = stage(600, &config).await;
    let tasks = json!([{"key": "a", "title": "A", "agent": "asking", "max_retries": 0}]);
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks.to_string()}}))
        .await;
    asked(&stage.api).await;
    stdout_of(&stage, "task answer f/a --choice 2").await;
    let log = wait_for_output(&stage, "logs f/a --attempt 1", "answered: SQLite").await;
    assert!(log.contains("elicitation/create Which database?"), "{log}");
}

#[tokio::test]
async fn without_people_the_agent_decides_and_the_question_is_stored() {
    let config = format!("[agents.asking]\ncommand = {:?}\n", eliciting());
    let stage = stage(0, &config).await;
    let decides = "@unless-prompt-has Nobody is there : @say <question>Which?</question>\n\
                   @if-prompt-has Nobody is there : @done\n";
    let tasks = json!([
        {"key": "a", "title": "A", "agent": "asking", "max_retries": 0},
        {"key": "b", "title": "B", "description": decides},
    ]);
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks.to_string()}}))
        .await;
    let asked = "Which database? (Postgres | SQLite)";
    let words = format!("asked, and nobody was there: {asked}");
    wait_for_output(&stage, "task show f/a", &words).await;
    let line = "declined: nobody is there, decide and say so";
    wait_for_output(&stage, "logs f/a --attempt 1", line).await;
    wait_for_output(&stage, "task show f/b", "asked, and nobody was there: Which?").await;
    until("the task to be done", async || {
        let (_, task) = stage.api.get("/tasks/f%2Fb").await;
        (task["status"] == "done").then_some(()).ok_or(task)
    })
    .await;
}

#[tokio::test]
async fn a_person_sends_a_message_to_a_running_session() {
    let stage = stage(600, "").await;
    let script = "@unless-prompt-has use tabs : @say I begin.\n\
                  @unless-prompt-has use tabs : @wait 600000\n\
                  @if-prompt-has use tabs : @write style.txt tabs\n\
                  @done\n";
    asking(&stage, script).await;
    wait_for_output(&stage, "logs f/a --attempt 1", "I begin.").await;
    stdout_of(&stage, "task say f/a 'please use tabs'").await;
    stage.ends("complete").await;
    assert_eq!(stage.file("style.txt"), "tabs");
    wait_for_output(&stage, "logs f/a --attempt 1", "says: please use tabs").await;
    let (_, task) = stage.api.get("/tasks/f%2Fa").await;
    assert_eq!(task["attempt"], 1, "{task}");
    let late = output(&stage, "task say f/a hello").await;
    let why = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(
        why.contains("no session of") && why.contains("task feedback"),
        "{why}"
    );
}
