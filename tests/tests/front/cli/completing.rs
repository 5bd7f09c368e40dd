//! Shell completion of names that the coordinator knows.

use ralph_tests::harness::{World, binary};
use tokio::process::Command;

use crate::caller::{ADMIN, Api};

/// Names that fish gets after these words, without descriptions.
async fn offered(url: &str, words: &[&str]) -> Vec<String> {
    let output = Command::new(binary("ralph-coordinator"))
        .args(["--", "ralph-coordinator"])
        .args(words)
        .env("COMPLETE", "fish")
        .env("RALPH_URL", url)
        .env("RALPH_TOKEN", ADMIN)
        .output()
        .await
        .unwrap();
    // An error would appear in the middle of the typed line.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text
        .lines()
        .map(|line| line.split('\t').next().unwrap().to_owned());
    names.collect()
}

#[tokio::test]
async fn completion_offers_names_of_features_and_tasks() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit(
        "greeting",
        "[{key: parse, title: Parse}, {key: print, title: Print}]",
    )
    .await;
    api.submit("other", "- {key: a, title: A}").await;
    assert_eq!(offered(&api.url, &["feature", "show", "gre"]).await, ["greeting"]);
    assert_eq!(
        offered(&api.url, &["task", "show", "greeting/p"]).await,
        ["greeting/parse", "greeting/print"]
    );
    assert_eq!(offered(&api.url, &["logs", "oth"]).await, ["other/a"]);
    assert_eq!(
        offered(&api.url, &["submit", "task", "--feature", "o"]).await,
        ["other"]
    );
    // An unreachable coordinator gives no names and no error.
    assert!(
        offered("http://127.0.0.1:9", &["feature", "show", "gre"])
            .await
            .is_empty()
    );
    // Nor is there a warning of an address that would get the token unencrypted.
    assert!(
        offered("http://192.0.2.1:9", &["feature", "show", "gre"])
            .await
            .is_empty()
    );
}
