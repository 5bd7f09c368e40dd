//! The number of attempts doesn't make git slower, and git still reuses their objects.

use std::fs;

use ralph_shared::wire::IntegrationEnd;

use crate::remote::{Remote, git, integrate_order};

#[tokio::test]
async fn a_landing_pushes_its_commit_and_no_file_again() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "large.txt", "much\n").await;
    let received = remote.data("received");
    let count = format!(
        "find \"$GIT_QUARANTINE_PATH\" -type f | wc -l >> '{}'",
        received.display()
    );
    remote.hook("pre-receive", &count);
    let order = integrate_order("t-1", &commit);
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    // First the rebased commit on its attempt ref, then the branch.
    assert_eq!(fs::read_to_string(received).unwrap(), "1\n0\n");
}

#[tokio::test]
async fn a_mirror_keeps_the_objects_of_an_attempt_but_not_its_ref() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "one.txt", "one\n").await;
    let order = integrate_order("t-1", &commit);
    remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    let mut mirrors = fs::read_dir(remote.data("data/mirrors")).unwrap().flatten();
    let mirror = mirrors.find(|entry| entry.path().is_dir()).unwrap().path();
    git(&mirror, &["cat-file", "-e", &commit]);
    let refs = git(&mirror, &["for-each-ref", "--format=%(refname)", "refs/ralph"]);
    assert_eq!(refs, "");
}
