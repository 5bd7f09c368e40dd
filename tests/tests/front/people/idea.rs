//! From an idea to a reviewed branch: the steps of a feature, and people's decisions in between (SPEC 2.1,
//! 5).

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed;

const IDEA: &str = r#"A program that greets.
@on-kind spec @say I look around.
@on-kind spec @say <document>
@on-kind spec @say # Greeting: hello.txt says hello
@on-kind spec @say </document>
@on-kind spec @run touch stray.txt
@on-kind plan @if-prompt-has hello.txt says hello : @say <document>one task writes hello.txt</document>
@on-kind build @if-prompt-has one task writes hello.txt : @say <<GRAPH
<task-graph>
- key: hello
  title: Say hello
  description: |
    @write hello.txt hello
    @done
- key: more
  title: Say more
  after: [hello]
  description: |
    @run cat hello.txt > more.txt
    @done
</task-graph>
GRAPH
@on-kind review @if-prompt-has Title: Review the feature, round 1 : @write note.txt reviewed
@on-kind review @if-prompt-has Title: Review the feature, round 1 : @say <<CHANGES
<review-changes>
It has to part as well.
@write bye.txt bye
@done
</review-changes>
CHANGES
@on-kind review @if-prompt-has Title: Review the feature, round 2 : @expect-pass test -f bye.txt
@on-kind review @if-prompt-has Title: Review the feature, round 2 : @say <review-pass/>
"#;

#[tokio::test]
async fn an_idea_becomes_a_reviewed_branch() {
    let stage = Stage::start().await;
    stage.submit(json!({"description": IDEA})).await;
    let over = stage.ends("complete").await;
    let expected = [
        "Break the plan into tasks",
        "Make the changes that the review asks for",
        "Review the feature, round 1",
        "Review the feature, round 2",
        "Say hello",
        "Say more",
        "Write the plan",
        "Write the specification",
    ];
    let titles = stage.titles().await;
    let expected: Vec<_> = expected.map(|title| (title.to_owned(), 1)).into();
    assert_eq!(titles, expected);
    let texts = stage.texts().await;
    assert_eq!(texts["spec"], "# Greeting: hello.txt says hello");
    assert_eq!(texts["plan"], "one task writes hello.txt");
    for (path, text) in [
        ("hello.txt", "hello"),
        ("more.txt", "hello"),
        ("bye.txt", "bye"),
        ("note.txt", "reviewed"),
    ] {
        assert_eq!(stage.file(path), text, "{path}");
    }
    let stray = stage.repository.git(&["cat-file", "-e", "ralph/f:stray.txt"]);
    assert!(
        stray.is_err(),
        "a session that only writes a text changed the branch"
    );
    // Iterations are attempts at work; the limit is 20, and 5 for each of the 3 tasks that agents added.
    assert_eq!(over["feature"]["run"]["limits"]["iterations"], 35, "{over}");
    assert_eq!(over["feature"]["run"]["iterations"], 3, "{over}");
}

const APPROVED: &str = r#"A program that greets.
@on-kind spec @say vague
@on-kind plan @if-prompt-has in a file : @say one task
@on-kind build @unless-prompt-has shorter : @say <task-graph>[{key: a, title: A, description: "@fail no"}]</task-graph>
@on-kind build @if-prompt-has shorter : @say <<GRAPH
<task-graph>
- key: hi
  title: Say hi
  description: |
    @write hi.txt hi
    @done
</task-graph>
GRAPH
"#;

#[tokio::test]
async fn people_approve_rewrite_and_reject_results_of_steps() {
    let stage = Stage::start().await;
    let more = json!({"description": APPROVED, "approve": ["spec", "tasks"], "review_rounds": 0});
    stage.submit(more).await;

    // The specification waits; a person replaces it with a better one.
    let blocked = stage.ends("blocked").await;
    let attention = blocked["attention"][0].clone();
    assert!(
        attention["reason"].as_str().unwrap().contains("feature spec f"),
        "{attention}"
    );
    assert_eq!(stage.texts().await["spec"], "vague");
    let put = async |body: Value| {
        let method = reqwest::Method::PUT;
        let path = "/api/v1/features/f/texts/spec";
        let answer = stage
            .api
            .send(method, path, Some(crate::caller::ADMIN), Some(body.to_string()))
            .await;
        answer.status().as_u16()
    };
    assert_eq!(put(json!({"text": "else", "before": "older"})).await, 409);
    assert_eq!(put(json!({"text": " "})).await, 400);
    assert_eq!(
        put(json!({"text": "it greets in a file", "before": "vague"})).await,
        200
    );

    // The graph waits; a person sends it back with a reason, and then approves another one.
    let blocked = stage.ends("blocked").await;
    let waited = async || {
        let output = typed::output(&stage, "feature wait f").await;
        String::from_utf8(output.stdout).unwrap()
    };
    let printed = waited().await;
    assert!(
        printed.contains("2 of 3 tasks done") && !printed.contains("on branch"),
        "nothing has landed: {printed}"
    );
    assert!(printed.contains("ralph task approve f/build"), "{printed}");
    let id = blocked["attention"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(stage.texts().await["plan"], "one task");
    let graph = stage.texts().await["tasks"].as_str().unwrap().to_owned();
    assert!(graph.contains("title: A"), "{graph}");
    let back = json!({"reason": "shorter, please"});
    let (status, answer) = stage.api.post(&format!("/tasks/{id}/retry"), &back).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    stage.ends("blocked").await;
    let (status, answer) = stage.api.post(&format!("/tasks/{id}/approve"), &json!({})).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    stage.ends("complete").await;
    assert_eq!(stage.file("hi.txt"), "hi");
    assert!(waited().await.contains(", on branch ralph/f\n"));
    assert_eq!(stage.texts().await["tasks"], Value::Null);
}

#[tokio::test]
async fn an_invalid_graph_fails_the_attempt_and_the_next_one_sees_why() {
    let stage = Stage::start().await;
    let description = r#"It.
@on-attempt 1 @on-kind build @say <task-graph>[{key: a, title: A, after: [b]}]</task-graph>
@on-attempt 2 @on-kind build @if-prompt-has names the unknown key : @say <task-graph>[{key: a, title: A, description: "@done"}]</task-graph>
"#;
    stage
        .submit(json!({"description": description, "plan": "one", "review_rounds": 0}))
        .await;
    stage.ends("complete").await;
    let titles = stage.titles().await;
    assert_eq!(
        titles,
        [("A".to_owned(), 1), ("Break the plan into tasks".to_owned(), 2)]
    );
}

#[tokio::test]
async fn a_failed_gate_stops_a_landing_and_its_output_reaches_the_retry() {
    let stage = Stage::start().await;
    let tasks = r#"
- key: a
  title: Right
  description: |
    @on-attempt 1 @write a.txt wrong
    @on-attempt 2 @if-prompt-has not right yet : @write a.txt right
    @done
"#;
    let gate = "grep -q right a.txt || { echo not right yet; exit 1; }";
    let tasks = json!({"source": "tasks.yaml", "text": tasks});
    stage
        .submit(
            json!({"tasks": tasks, "run": {"backoff_ms": 0, "gate": [gate], "gate_may_fail_on_base": true}}),
        )
        .await;
    stage.ends("complete").await;
    assert_eq!(stage.titles().await, [("Right".to_owned(), 2)]);
    assert_eq!(stage.file("a.txt"), "right");
}

#[tokio::test]
async fn a_review_with_a_failed_correction_asks_for_changes_once() {
    let stage = Stage::start().await;
    let tasks = r#"
- key: a
  title: First
  description: |
    @write a.txt a
    @done
"#;
    let description = r#"It.
@on-kind review @on-attempt 1 @if-prompt-has Title: Review the feature, round 1 : @write wrong.txt wrong
@on-kind review @if-prompt-has Title: Review the feature, round 1 : @say <<CHANGES
<review-changes>
@write b.txt b
@done
</review-changes>
CHANGES
@on-kind review @if-prompt-has Title: Review the feature, round 2 : @say <review-pass/>
"#;
    let tasks = json!({"source": "tasks.yaml", "text": tasks});
    let run = json!({"backoff_ms": 0, "gate": ["! test -f wrong.txt"]});
    stage
        .submit(json!({"description": description, "tasks": tasks, "review_rounds": 2, "run": run}))
        .await;
    stage.ends("complete").await;
    let expected = [
        ("First", 1),
        ("Make the changes that the review asks for", 1),
        ("Review the feature, round 1", 2),
        ("Review the feature, round 2", 1),
        ("Try the gate on the base", 1),
    ];
    assert_eq!(
        stage.titles().await,
        expected.map(|(title, n)| (title.to_owned(), n))
    );
    assert_eq!(stage.file("b.txt"), "b");
}

#[tokio::test]
async fn a_feature_without_a_graph_ends_with_no_plan_and_can_continue() {
    let stage = Stage::start().await;
    stage.submit(json!({"draft": true})).await;
    let path = "/api/v1/features/f/texts/plan";
    let body = json!({"text": "one task"}).to_string();
    let put = (reqwest::Method::PUT, Some(crate::caller::ADMIN), Some(body));
    let answer = stage.api.send(put.0, path, put.1, put.2).await;
    assert_eq!(answer.status().as_u16(), 200);
    // This agent has no script, so the step needs a person in the end.
    stage.run_again().await;
    stage.ends("blocked").await;
    let (_, preview) = stage.api.get("/tasks/f%2Fbuild/preview").await;
    let prompt = preview["frame"].as_str().unwrap_or_default();
    assert!(
        prompt.contains("You break the plan of a feature into tasks"),
        "{preview}"
    );
    let body = preview["body"].as_str().unwrap_or_default();
    assert!(
        body.contains("Why it failed (extracted") && body.contains("without a task graph"),
        "{preview}"
    );
    let (status, answer) = stage.api.post("/tasks/f%2Fbuild/done", &json!({})).await;
    assert_eq!(status.as_u16(), 409, "{answer}");
    let (status, answer) = stage.api.post("/tasks/f%2Fbuild/cancel", &json!({})).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    stage.ends("no_plan").await;
    let (status, answer) = stage.api.post("/tasks/f%2Fbuild/retry", &json!({})).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    stage.ends("blocked").await;
}

#[tokio::test]
async fn a_person_changes_a_graph_that_waits_for_approval() {
    let stage = Stage::start().await;
    let description =
        "It.\n@on-kind build @say <task-graph>[{key: a, title: A, description: \"@fail no\"}]</task-graph>\n";
    let more = json!({"description": description, "plan": "one", "approve": ["tasks"], "review_rounds": 0});
    stage.submit(more).await;
    let put = async |body: Value| {
        let method = reqwest::Method::PUT;
        let path = "/api/v1/features/f/texts/tasks";
        let answer = stage
            .api
            .send(method, path, Some(crate::caller::ADMIN), Some(body.to_string()))
            .await;
        let status = answer.status().as_u16();
        let answer: Value = answer.json().await.unwrap();
        (status, answer["detail"].as_str().unwrap_or_default().to_owned())
    };
    let good = "- key: hi\n  title: Say hi\n  description: |\n    @write hi.txt hi\n    @done\n";
    let blocked = stage.ends("blocked").await;
    let id = blocked["attention"][0]["id"].as_str().unwrap().to_owned();
    let stored = stage.texts().await["tasks"].as_str().unwrap().to_owned();
    let (status, words) = put(json!({"text": "- {key: a}", "before": stored})).await;
    assert!(status == 409 && words.contains("title"), "{status}: {words}");
    let (status, words) = put(json!({"text": good, "before": "older"})).await;
    assert!(
        status == 409 && words.contains("somebody else"),
        "{status}: {words}"
    );
    assert_eq!(stage.texts().await["tasks"], stored.as_str());
    assert_eq!(put(json!({"text": good, "before": stored})).await.0, 200);
    let (status, answer) = stage.api.post(&format!("/tasks/{id}/approve"), &json!({})).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    stage.ends("complete").await;
    assert_eq!(stage.file("hi.txt"), "hi");
    let (status, words) = put(json!({"text": good})).await;
    assert!(
        status == 409 && words.contains("waits for approval"),
        "{status}: {words}"
    );
}
