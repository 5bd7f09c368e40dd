//! The worker is killed at every named point; its next process loses nothing and lands once.

use std::fs;

use ralph_shared::wire::{Decided, IntegrateOrder, IntegrationEnd};
use ralph_worker::faults::POINTS;
use ralph_worker::workspace::{CommitMessage, Decision, Workspaces};
use tokio::sync::watch;

use crate::remote::{BRANCH, FEATURE, Remote, git, integrate_order};

/// Not a test by itself: the test below runs it in a process, which is killed.
#[tokio::test]
async fn process_that_is_killed() {
    let Some(remote) = Remote::of_killer() else {
        return;
    };
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    git(workspace.path(), &["switch", "-q", "-c", "mine"]);
    git(
        workspace.path(),
        &["commit", "-q", "--allow-empty", "-m", "Elsewhere"],
    );
    git(workspace.path(), &["switch", "-q", BRANCH]);
    fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
    fs::write(remote.data("worked"), "").unwrap();
    let snapshot = crate::remote::finish(&workspace).await;
    workspace.remove().await.unwrap();
    let decide = |decided: Decided| {
        fs::write(remote.data("decided"), serde_json::to_vec(&decided).unwrap()).unwrap();
        async { Decision::Push }
    };
    let (_sender, end) = watch::channel(None);
    let git_order = remote.integration_order("t-1", "i-1");
    let order = integrate_order("t-1", &snapshot.commit.unwrap());
    workspaces.integrate("i-1", &git_order, &order, decide, end).await;
}

#[tokio::test]
async fn a_kill_at_any_point_loses_nothing_and_the_task_lands_once() {
    for point in POINTS {
        let remote = Remote::new();
        remote.kill_at("kills::process_that_is_killed", point, &[]).await;
        let workspaces = remote.workspaces().await;
        let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
        let attempt_ref = remote.order("t-1", "t-1").attempt_ref;
        if remote.data("worked").exists() {
            let show = format!("{attempt_ref}:new.txt");
            assert_eq!(remote.git(&["show", &show]), "new", "{point}: {rescued:?}");
            let elsewhere = remote.head(&format!("{attempt_ref}-strays/branches/mine"));
            assert!(elsewhere.is_some(), "{point}: {rescued:?}");
        } else {
            attempt_again(&remote, &workspaces).await;
        }
        let commit = remote.head(&attempt_ref).unwrap();
        let resume = fs::read(remote.data("decided"))
            .ok()
            .map(|bytes| serde_json::from_slice(&bytes).unwrap());
        let order = IntegrateOrder {
            resume,
            ..integrate_order("t-1", &commit)
        };
        let ended = remote.integrate(&workspaces, "t-1", "i-2", &order).await;
        assert!(
            matches!(ended, IntegrationEnd::Merged { empty: false, .. }),
            "{point}: {ended:?}"
        );
        assert_eq!(remote.landings("t-1"), 1, "{point}");
        assert_eq!(
            remote.git(&["rev-list", "--count", &format!("{}..{FEATURE}", remote.base)]),
            "1"
        );
        remote.git(&["fsck", "--strict"]);
        assert_eq!(
            fs::read_dir(remote.data("data/records")).unwrap().count(),
            0,
            "{point}"
        );
    }
}

/// The agent never ran: another dispatch does the task.
async fn attempt_again(remote: &Remote, workspaces: &Workspaces) {
    remote.git(&["update-ref", "-d", &remote.order("t-1", "t-1").attempt_ref]);
    remote.attempt(workspaces, "t-1", "new.txt", "new\n").await;
}
