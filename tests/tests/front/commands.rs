//! Commands that need no coordinator, or don't get as far as one.

use std::path::Path;
use std::process::{Command, Output};

use ralph_tests::harness::binary;

fn ralph(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder)
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap());
    command.output().unwrap()
}

fn git(folder: &Path, args: &[&str]) {
    let status = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=T", "-c", "user.email=t@localhost"])
        .args(args)
        .status()
        .unwrap();
    assert!(status.success(), "git {args:?}");
}

fn check(folder: &Path, args: &[&str], code: i32, words: &[&str]) {
    let output = ralph(folder, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{args:?} should tell `{word}`: {said}");
    }
    assert!(output.stdout.is_empty(), "standard output is for results");
}

/// Nothing listens there: whatever gets as far as asking it fails with another code.
const NOBODY: [&str; 4] = ["--url", "http://127.0.0.1:9", "--token", "x"];

#[test]
fn a_submission_that_cannot_work_is_refused_before_anything_is_sent() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    std::fs::write(at("tasks.yaml"), "- {key: a, title: A}\n").unwrap();
    std::fs::write(
        at("circle.yaml"),
        "- {key: a, title: A, after: [b]}\n- {key: b, title: B, after: [a]}\n",
    )
    .unwrap();
    for name in ["plain", "empty", "full", "full/inside"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    git(&at("empty"), &["init", "-q", "-b", "main"]);
    git(&at("full"), &["init", "-q", "-b", "main"]);
    git(&at("full"), &["commit", "-q", "--allow-empty", "-m", "begin"]);
    git(&at("full"), &["branch", "ralph/taken"]);

    let submit = |name: &str, more: &[&str], code: i32, words: &[&str]| {
        let mut args = vec!["submit", "feature", name];
        args.extend(NOBODY);
        args.extend(more);
        check(root.path(), &args, code, words);
    };
    let tasks = ["--tasks", "tasks.yaml"];
    submit("Bad Name", &tasks, 2, &["a-z"]);
    submit("x", &["--tasks", "none.yaml"], 2, &["none.yaml"]);
    submit("x", &[], 2, &["--tasks", "--draft"]);
    submit("x", &tasks, 2, &["no git repository", "--repo", "--no-repo"]);
    submit(
        "x",
        &[&tasks[..], &["--repo", "plain"]].concat(),
        2,
        &["no git repository"],
    );
    submit(
        "x",
        &[&tasks[..], &["--repo", "none"]].concat(),
        2,
        &["there is no repository none"],
    );
    submit(
        "x",
        &[&tasks[..], &["--repo", "empty"]].concat(),
        2,
        &["no commit"],
    );
    submit(
        "x",
        &[&tasks[..], &["--repo", "full/inside"]].concat(),
        2,
        &["a folder of"],
    );
    submit(
        "x",
        &[&tasks[..], &["--repo", "full", "--base", "nope"]].concat(),
        2,
        &["nope", "--base"],
    );
    submit(
        "x",
        &[&tasks[..], &["--repo", "full", "--branch", "a b"]].concat(),
        2,
        &["branch"],
    );
    submit("x", &[&tasks[..], &["--max-time", "soon"]].concat(), 2, &["90s"]);
    submit(
        "x",
        &[&tasks[..], &["--repo", "full"]].concat(),
        1,
        &["no coordinator answers", "ralph-coordinator up"],
    );
    submit(
        "taken",
        &[&tasks[..], &["--repo", "full"]].concat(),
        1,
        &["no coordinator answers"],
    );
    check(
        root.path(),
        &["submit", "feature", "x", "--tasks", "circle.yaml", "--dry-run"],
        2,
        &["circle.yaml", "a", "b"],
    );
    check(root.path(), &["status"], 1, &["ralph-coordinator up", "--url"]);
}

#[test]
fn a_dry_run_draws_the_graph_and_needs_nobody() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(
        root.path().join("tasks.yaml"),
        "- {key: a, title: First}\n- {key: b, title: Second, after: [a]}\n",
    )
    .unwrap();
    let output = ralph(
        root.path(),
        &["submit", "feature", "x", "--tasks", "tasks.yaml", "--dry-run"],
    );
    let drawn = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && drawn.contains("b: Second  ← a"),
        "{drawn}"
    );
}
