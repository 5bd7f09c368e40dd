//! Branches and repositories that the API and the commands accept.

use std::path::Path;
use std::process::Command;

use ralph_coordinator::flow::Settings;
use ralph_shared::repositories::Repositories;
use ralph_tests::harness::World;
use serde_json::{Value, json};

use crate::caller::Api;
use crate::stage::Stage;
use crate::typed::output;

fn feature(name: &str, address: &str, branch: Option<&str>) -> Value {
    let mut repo = json!({
        "address": address,
        "id": "r",
        "base_ref": "main",
        "base_commit": "0123456789".repeat(4),
    });
    if let Some(branch) = branch {
        repo["branch"] = branch.into();
    }
    json!({"name": name, "draft": true, "repo": repo, "tasks": {"source": "t", "text": "- {key: a, title: A}"}})
}

fn git(folder: &Path, args: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@b.c"])
        .args(args)
        .current_dir(folder)
        .status();
    assert!(done.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_and_the_commands_refuse_invalid_branch_names() {
    let stage = Stage::start().await;
    stage.repository.git(&["tag", "v1", "main"]).unwrap();
    let path = stage.repository.path().display().to_string();
    std::fs::write(stage.world.dir().join("t.yaml"), "- {key: a, title: A}\n").unwrap();
    let submit = |branch: &str| {
        format!("submit feature x --tasks t.yaml --repo {path} --base main --draft '--branch={branch}'")
    };
    for bad in [
        "refs/heads/main",
        "HEAD",
        "+main",
        "refs/tags/v1",
        "-x",
        "@",
        "heads/x",
        "FETCH_HEAD",
    ] {
        let (status, answer) = stage.api.post("/features", &feature("x", &path, Some(bad))).await;
        let why = answer["detail"].as_str().unwrap_or_default();
        assert!(
            status.as_u16() == 422 && why.contains("branch's name"),
            "{bad}: {status} {answer}"
        );
        let submitted = output(&stage, &submit(bad)).await;
        let words = String::from_utf8_lossy(&submitted.stderr).into_owned();
        assert!(
            submitted.status.code() == Some(2) && words.contains("branch's name"),
            "{bad}: {words}"
        );
    }
    for (taken, words) in [("v1", "is a tag"), ("main", "exists in")] {
        let submitted = output(&stage, &submit(taken)).await;
        let stderr = String::from_utf8_lossy(&submitted.stderr).into_owned();
        assert!(
            submitted.status.code() == Some(2) && stderr.contains(words),
            "{taken}: {stderr}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_with_foreign_commits_fails_without_a_session() {
    let stage = Stage::start().await;
    let base = stage.repository.head("main").unwrap();
    stage.repository.git(&["branch", "taken", "main"]).unwrap();
    stage
        .repository
        .commit("taken", "theirs.txt", "theirs\n")
        .unwrap();
    let tasks = "- {key: a, title: A, max_retries: 0, description: \"@effect ran\\n@write a.txt a\\n@done\"}";
    stage
        .submit(json!({
            "tasks": {"source": "t", "text": tasks},
            "repo": {
                "address": stage.repository.path(),
                "id": "r",
                "base_ref": "main",
                "base_commit": base,
                "branch": "taken",
            },
        }))
        .await;
    let over = stage.ends("blocked").await;
    let why = over["attention"][0]["reason"].as_str().unwrap();
    assert!(
        why.contains("belongs to somebody else") && why.contains("--branch"),
        "{why}"
    );
    assert_eq!(stage.world.effects_lines(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_run_programs_or_point_at_the_machine_are_refused() {
    let world = World::start_with(Settings {
        repositories: Repositories {
            local: false,
            ..Repositories::default()
        },
        ..Settings::default()
    })
    .await
    .unwrap();
    let api = Api::start(&world).await;
    for (n, (address, words)) in [
        ("ext::sh -c id", "`ext::` is no scheme"),
        ("fd::3", "`fd::` is no scheme"),
        ("ftp://host/a", "`ftp` is no scheme"),
        ("file:///etc", "[repositories] local"),
        ("/srv/a", "[repositories] local"),
        ("http://127.0.0.1:9/a", "[repositories] local"),
        ("http://169.254.169.254/a", "[repositories] local"),
        ("https://[::1]/a", "[repositories] local"),
    ]
    .into_iter()
    .enumerate()
    {
        let (status, answer) = api
            .post("/features", &feature(&format!("x{n}"), address, None))
            .await;
        let why = answer["detail"].as_str().unwrap_or_default();
        assert!(
            status.as_u16() == 422 && why.contains(words),
            "{address}: {status} {answer}"
        );
    }
    let (status, answer) = api
        .post("/features", &feature("y", "https://example.org/a", None))
        .await;
    assert_eq!(status.as_u16(), 201, "{answer}");
}

/// Git's own error is shown, and an existing repository gets no advice to run `git init`.
#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_git_cannot_read_gets_gits_own_error() {
    let stage = Stage::start().await;
    let folder = stage.world.dir().join("odd");
    std::fs::create_dir(&folder).unwrap();
    let submit = format!("submit feature x --description y --repo {}", folder.display());
    let stderr_of_submit = async || {
        let output = output(&stage, &submit).await;
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let words = stderr_of_submit().await;
    assert!(words.contains("`git init`"), "{words}");
    git(&folder, &["init", "-q"]);
    git(&folder, &["config", "core.repositoryFormatVersion", "1"]);
    git(&folder, &["config", "extensions.fromTheFuture", "true"]);
    let words = stderr_of_submit().await;
    assert!(
        words.contains("fromthefuture") && !words.contains("git init"),
        "{words}"
    );
    std::fs::write(folder.join(".git/config"), "[core\n").unwrap();
    let words = stderr_of_submit().await;
    assert!(
        words.contains("bad config") && !words.contains("git init"),
        "{words}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_warns_of_a_filter_that_only_the_repository_defines() {
    let stage = Stage::start().await;
    let folder = stage.world.dir().join("secrets");
    std::fs::create_dir(&folder).unwrap();
    git(&folder, &["init", "-q", "-b", "main"]);
    std::fs::write(
        folder.join(".gitattributes"),
        "*.key filter=crypt\n*.bin filter=lfs\n",
    )
    .unwrap();
    std::fs::write(folder.join("a.key"), "plain\n").unwrap();
    git(&folder, &["add", "-A"]);
    git(&folder, &["commit", "-q", "-m", "Begin"]);
    git(&folder, &["config", "filter.crypt.clean", "cat"]);
    let submit = |name: &str| {
        let path = folder.display();
        format!("submit feature {name} --description y --draft --repo {path}")
    };
    let submitted = output(&stage, &submit("x")).await;
    let words = String::from_utf8_lossy(&submitted.stderr).into_owned();
    assert!(
        submitted.status.success() && words.contains("`a.key`") && words.contains("`crypt`"),
        "{words}"
    );
    std::fs::write(
        stage.world.dir().join(".gitconfig"),
        "[filter \"crypt\"]\n\tclean = cat\n",
    )
    .unwrap();
    let submitted = output(&stage, &submit("y")).await;
    let words = String::from_utf8_lossy(&submitted.stderr).into_owned();
    assert!(submitted.status.success() && !words.contains("crypt"), "{words}");
}
