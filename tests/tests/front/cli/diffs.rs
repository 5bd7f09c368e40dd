//! `task diff`, `feature diff` and `feature checkout` in a clone of the repository.

use std::path::Path;
use std::process::Command;

use ralph_tests::harness::{Terminal, binary};
use serde_json::json;

use crate::caller::ADMIN;
use crate::stage::Stage;

const TASKS: &str = r#"
- key: a
  title: Lands at the second attempt
  description: |
    @on-attempt 1 @write a.txt one
    @on-attempt 1 @fail not right
    @on-attempt 2 @write a.txt two
    @done
- key: b
  title: Needs a person
  max_retries: 0
  description: |
    @write b.txt three
    @fail no
- key: c
  title: Changes nothing
  max_retries: 0
  description: |
    @fail no
"#;

fn command(stage: &Stage, folder: &Path, line: &str) -> Command {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(line.split(' '))
        .current_dir(folder)
        .env("HOME", folder)
        .env("RALPH_URL", &stage.api.url)
        .env("RALPH_TOKEN", ADMIN);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diffs_are_shown_in_a_clone_of_the_repository() {
    let stage = Stage::start().await;
    stage
        .submit(json!({"tasks": {"source": "t", "text": TASKS}}))
        .await;
    stage.ends("blocked").await;
    let folder = tempfile::tempdir().unwrap();
    let clone = folder.path().join("clone");
    let from = stage.repository.path().display().to_string();
    let cloned = Command::new("git")
        .args(["clone", "-q", "-b", "main", &from])
        .arg(&clone)
        .status()
        .unwrap();
    assert!(cloned.success());

    let run = |at: &Path, line: &str| {
        let output = command(&stage, at, line).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for (line, has, lacks) in [
        ("task diff f/a", &["\n+two\n"][..], &["one", "b.txt"][..]),
        ("task diff f/a --attempt 1", &["\n+one\n"], &["two"]),
        ("task diff f/a --attempt 2", &["\n+two\n"], &["one"]),
        ("task diff f/b", &["\n+three\n"], &["a.txt"]),
        ("task diff f/b --attempt 1 --stat", &["b.txt | 1 +"], &["three"]),
        // The session left an empty commit.
        ("task diff f/c", &[], &["diff"]),
        ("feature diff f", &["\n+two\n"], &["b.txt"]),
        ("feature diff f --stat", &["a.txt | 1 +"], &["two"]),
    ] {
        let (code, shown, stderr) = run(&clone, line);
        assert_eq!(code, Some(0), "{line}: {stderr}");
        assert!(has.iter().all(|words| shown.contains(words)), "{line}: {shown}");
        assert!(
            !lacks.iter().any(|words| shown.contains(words)),
            "{line}: {shown}"
        );
    }
    for (at, line, code, words) in [
        (&*clone, "task diff f/a --attempt 9", 1, "task show"),
        (folder.path(), "task diff f/a", 2, "in a clone"),
        (folder.path(), "feature diff f", 2, "in a clone"),
    ] {
        let (found, _, stderr) = run(at, line);
        assert!(
            found == Some(code) && stderr.contains(words),
            "{line}: {found:?} {stderr}"
        );
    }

    // Git shows its output in Ralph's pager.
    let mut paged = command(&stage, &clone, "feature diff f");
    paged.env("RALPH_PAGER", "sed s/^/%/");
    let (status, shown) = Terminal::open(&paged).end();
    assert!(status.success() && shown.contains("%"), "{status}: {shown}");
    paged.arg("--no-pager");
    let (status, shown) = Terminal::open(&paged).end();
    assert!(
        status.success() && !shown.contains('%') && shown.contains("two"),
        "{status}: {shown}"
    );

    let (code, _, stderr) = run(&clone, "feature checkout f");
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(std::fs::read_to_string(clone.join("a.txt")).unwrap(), "two\n");
    // A second checkout has nothing to do.
    assert_eq!(run(&clone, "feature checkout f").0, Some(0));

    // From a detached head, with a feature branch that is behind or missing.
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(arguments)
            .current_dir(&clone)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let head = git(&["rev-parse", "HEAD"]);
    for prepare in [
        &["branch", "-f", "ralph/f", "HEAD"][..],
        &["branch", "-D", "ralph/f"],
    ] {
        git(&["checkout", "-q", "--detach", "origin/main"]);
        git(prepare);
        let (code, _, stderr) = run(&clone, "feature checkout f");
        assert_eq!(code, Some(0), "{prepare:?}: {stderr}");
        assert_eq!(git(&["symbolic-ref", "--short", "HEAD"]), "ralph/f");
        assert_eq!(git(&["rev-parse", "HEAD"]), head);
    }
    // The checkout never overwrites uncommitted changes; it then moves nothing.
    git(&["checkout", "-q", "--detach", "origin/main"]);
    std::fs::write(clone.join("a.txt"), "mine\n").unwrap();
    let (code, _, stderr) = run(&clone, "feature checkout f");
    assert!(code != Some(0) && stderr.contains("a.txt"), "{stderr}");
    assert_eq!(std::fs::read_to_string(clone.join("a.txt")).unwrap(), "mine\n");
    assert_eq!(git(&["rev-parse", "HEAD"]), git(&["rev-parse", "origin/main"]));
    // An uncommitted change without a conflict is carried over.
    std::fs::remove_file(clone.join("a.txt")).unwrap();
    git(&["checkout", "-q", "--force", "origin/main"]);
    std::fs::write(clone.join("note.txt"), "mine\n").unwrap();
    let (code, _, stderr) = run(&clone, "feature checkout f");
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(std::fs::read_to_string(clone.join("note.txt")).unwrap(), "mine\n");
}
