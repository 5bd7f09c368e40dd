use ralph_tests::harness::WorkerOptions;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::stdout_of;

#[tokio::test]
async fn an_attempt_that_deletes_a_test_is_reported_to_its_verifier() {
    let files = [
        ("README.md", "begin\n"),
        ("tests/sum.sh", "test $((1 + 1)) = 2\n"),
    ];
    let stage = Stage::with(&WorkerOptions::named("w"), &files, "").await;
    // The verifier passes an attempt unless its prompt reports a weakened test.
    let description = "@on-attempt 1 @run rm tests/sum.sh\n\
        @on-attempt 2 @run git checkout -q HEAD~1 -- tests/sum.sh\n\
        @append README.md more\n@done\n\
        @on-kind verify @on-attempt 1 @unless-prompt-has - tests/sum.sh: test file deleted : @say <verify-pass/>\n\
        @on-kind verify @on-attempt 1 @if-prompt-has - tests/sum.sh: test file deleted : @say <verify-fail>A test is gone.</verify-fail>\n\
        @on-kind verify @on-attempt 2 @if-prompt-has ### Weakened Tests : @say <verify-fail>Not again.</verify-fail>\n\
        @on-kind verify @on-attempt 2 @unless-prompt-has +more : @say <verify-fail>There is no diff.</verify-fail>\n\
        @on-kind verify @on-attempt 2 @say <verify-pass/>";
    let tasks = json!([{"key": "a", "title": "Say more", "description": description}]).to_string();
    stage
        .submit(json!({"verify": true, "tasks": {"source": "t", "text": tasks}}))
        .await;
    stage.ends("complete").await;

    assert_eq!(stage.titles().await, [("Say more".to_owned(), 2)]);
    assert_eq!(stage.file("tests/sum.sh"), "test $((1 + 1)) = 2");
    let (_, page) = stage.api.get("/features/f/tasks").await;
    let id = page["items"][0]["id"].as_str().unwrap();
    let (_, shown) = stage.api.get(&format!("/tasks/{id}")).await;
    let attempts = shown["dispatches"].as_array().unwrap().iter();
    let found: Vec<&Value> = attempts
        .flat_map(|d| d["test_changes"].as_array().unwrap())
        .collect();
    let expected = json!({"path": "tests/sum.sh", "kind": "file_deleted", "lines": [], "more": 0});
    assert_eq!(found, [&expected]);
}

#[tokio::test]
async fn a_review_shows_the_evidence_for_an_approval() {
    let files = [
        ("README.md", "begin\n"),
        ("tests/sum.sh", "test $((1 + 1)) = 2\n"),
    ];
    let stage = Stage::with(&WorkerOptions::named("w"), &files, "").await;
    let description = "@run rm tests/sum.sh\n@append README.md more\n@say <journal>It was in the way.</journal>\n@done\n\
        @on-kind verify @say <verify-fail>A test is gone.</verify-fail>";
    let tasks = json!([
        {"key": "a", "title": "Say more", "description": description, "max_retries": 0},
        {"key": "b", "title": "Harmless", "description": "@write b.txt b\n@done", "verify": false},
    ]);
    stage
        .submit(json!({"verify": true, "tasks": {"source": "t", "text": tasks.to_string()}}))
        .await;
    stage.ends("blocked").await;

    let (status, page) = stage.api.get("/features/f/review").await;
    assert_eq!(status.as_u16(), 200, "{page}");
    let items = page["items"].as_array().unwrap();
    assert_eq!(
        items.len(),
        1,
        "a landed task without weakened tests must not be listed: {page}"
    );
    assert_eq!(items[0]["lines"], json!({"added": 1, "removed": 1}), "{page}");
    let shown = stdout_of(&stage, "feature review f --show").await;
    let id = items[0]["id"].as_str().unwrap();
    for words in [
        &format!("{id} Say more: needs_review"),
        "journal   It was in the way.",
        "changed   2 files, +1 -1 lines: README.md, tests/sum.sh",
        "A test is gone.",
        "look at   tests/sum.sh: test file deleted",
        "task approve f/a",
    ] {
        assert!(shown.contains(words), "`{words}` in {shown}");
    }
}
