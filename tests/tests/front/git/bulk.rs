//! New files that look like build output send an attempt back once; files that stay are reported.

use serde_json::json;

use crate::stage::Stage;
use crate::typed::stdout_of;

#[tokio::test(flavor = "multi_thread")]
async fn build_output_is_sent_back_once_and_then_reported() {
    let stage = Stage::start().await;
    let graph = r"
- key: a
  title: Builds
  description: |
    @on-attempt 1 @run mkdir -p node_modules/x target && echo x > node_modules/x/y.js && echo o > target/o
    @on-attempt 2 @run rm -r target
    @write a.txt a
    @if-prompt-has `node_modules/` : @write told.txt told
    @done
";
    stage
        .submit(json!({"tasks": {"text": graph, "source": "tasks.yaml"}}))
        .await;
    stage.ends("complete").await;
    let (_, detail) = stage.api.get("/tasks/f%2Fa").await;
    let dispatches = detail["dispatches"].as_array().unwrap().iter();
    let work: Vec<_> = dispatches.filter(|one| one["kind"] == "work").collect();
    assert_eq!(work.len(), 2, "{detail}");
    assert_eq!(work[0]["failure"], "bulk", "{detail}");
    let reason = work[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("`node_modules/` (1 file(s)")
            && reason.contains("`target/`")
            && reason.contains(".gitignore"),
        "{reason}"
    );
    // The next attempt knew of the files; those that it kept count as intended.
    assert_eq!(stage.file("told.txt"), "told");
    let files = stage
        .repository
        .git(&["ls-tree", "-r", "--name-only", "ralph/f"])
        .unwrap();
    assert_eq!(
        files.lines().collect::<Vec<_>>(),
        ["README.md", "a.txt", "node_modules/x/y.js", "told.txt"]
    );
    let shown = stdout_of(&stage, "task show f/a").await;
    assert!(
        shown.contains("node_modules/") && shown.contains("new, and large"),
        "{shown}"
    );
}
