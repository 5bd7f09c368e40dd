//! Work that a rule of its server refuses, however often it is pushed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ralph_worker::workspace::{CommitMessage, Workspaces};

use crate::remote::Remote;

/// Leaves unpushed work that was committed this many days ago; returns its folder.
async fn leave(remote: &Remote, workspaces: &Workspaces, age_days: u64) -> PathBuf {
    let workspace = remote.prepare(workspaces, "t-1").await;
    let tree = workspace.path().to_owned();
    fs::write(tree.join("a.txt"), "1\n").unwrap();
    let snapshot = workspace.finish(&CommitMessage::default()).await;
    assert!(snapshot.push_error.is_some());
    let data = tree.ancestors().nth(3).unwrap();
    let record = Path::new("records")
        .join(workspace.dispatch())
        .join("workspace.json");
    let committed = SystemTime::now() - Duration::from_secs(age_days * 24 * 60 * 60);
    let record = fs::File::open(data.join(record)).unwrap();
    record.set_modified(committed).unwrap();
    tree
}

#[tokio::test]
async fn refused_work_is_kept_for_a_week() {
    for (age_days, exists) in [(6, true), (7, false)] {
        let remote = Remote::new();
        let workspaces = remote.workspaces().await;
        remote.hook("pre-receive", "echo 'not today' >&2; exit 1");
        let tree = leave(&remote, &workspaces, age_days).await;
        // A retry does not reset its age.
        for _ in 0..2 {
            workspaces.rescue_unpushed(&CommitMessage::default()).await;
            assert_eq!(tree.exists(), exists, "after {age_days} days");
        }
    }
}

#[tokio::test]
async fn work_waits_indefinitely_for_an_absent_repository() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    remote.hook("pre-receive", "exit 1");
    let tree = leave(&remote, &workspaces, 1_000).await;
    let gone = remote.path().with_extension("gone");
    fs::rename(remote.path(), &gone).unwrap();
    workspaces.rescue_unpushed(&CommitMessage::default()).await;
    assert!(tree.exists());
    fs::rename(&gone, remote.path()).unwrap();
    remote.hook("pre-receive", "exit 0");
    let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
    assert!(rescued[0].1.is_pushed(), "{rescued:?}");
    assert!(!tree.exists());
}
