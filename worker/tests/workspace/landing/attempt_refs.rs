//! Attempts that an earlier release stored as branches move to their own refs; none is lost, even if a worker
//! is killed.

use ralph_shared::attempts::elsewhere;
use ralph_worker::faults::MOVE_POINTS;

use crate::remote::{FEATURE, Remote, finish};

/// Names of two attempts among the branches.
fn old_names(remote: &Remote) -> Vec<String> {
    let of = |task: &&str| elsewhere(&remote.order(task, task).attempt_ref).unwrap();
    ["t-1", "t-2"].iter().map(of).collect()
}

/// Two attempts as an earlier release stored them, one with an orphan commit.
async fn from_an_earlier_release() -> Remote {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    for (task, file) in [("t-1", "one.txt"), ("t-2", "two.txt")] {
        let commit = remote.attempt(&workspaces, task, file, "x\n").await;
        let new = remote.order(task, task).attempt_ref;
        let old = elsewhere(&new).unwrap();
        remote.git(&["update-ref", &old, &commit]);
        remote.git(&["update-ref", "-d", &new]);
    }
    let beside = format!("{}-strays/branches/x", old_names(&remote)[0]);
    remote.git(&["update-ref", &beside, &remote.base]);
    remote
}

fn all(remote: &Remote, pattern: &str) -> Vec<String> {
    let format = "--format=%(objectname) %(refname:lstrip=3)";
    let listed = remote.git(&["for-each-ref", format, pattern]);
    listed.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn attempts_move_with_their_orphan_commits_and_nothing_else_does() {
    let remote = from_an_earlier_release().await;
    let before = all(&remote, "refs/heads/ralph-attempts");
    remote.git(&[
        "update-ref",
        "refs/heads/ralph-attempts/demo/t-3/1-other",
        &remote.base,
    ]);
    assert_eq!(before.len(), 3, "{before:?}");
    let names = old_names(&remote);
    let address = remote.path().to_str().unwrap().to_owned();
    let workspaces = remote.workspaces().await;
    for _ in 0..2 {
        let moved = workspaces.move_attempts(&address, &remote.base, &names).await;
        assert_eq!((moved.gone, moved.error), (names.clone(), None));
        assert_eq!(all(&remote, "refs/ralph/attempts"), before);
        assert_eq!(all(&remote, "refs/heads/ralph-attempts").len(), 1, "others stay");
    }
    let refused = workspaces
        .move_attempts(&address, &remote.base, &[FEATURE.to_owned()])
        .await;
    assert!(refused.error.unwrap().contains("no ref of an attempt"));

    // A moved attempt can be pruned and continued by its old name.
    let order = ralph_shared::wire::GitOrder {
        start: Some(before[0].split(' ').next().unwrap().to_owned()),
        start_ref: Some(names[0].clone()),
        ..remote.order("t-1", "again")
    };
    let workspace = workspaces
        .prepare("again", &ralph_shared::wire::WorkspaceOrder::Git(order))
        .await
        .unwrap();
    assert!(workspace.path().join("one.txt").exists());
    finish(&workspace).await;
    let pruned = workspaces.prune(&address, &remote.base, &names[..1]).await;
    assert_eq!((pruned.gone.len(), pruned.error), (1, None));
    assert_eq!(all(&remote, "refs/ralph/attempts/demo/t-1/1-t-1*").len(), 0);
}

#[tokio::test]
async fn a_taken_ref_stays_and_is_reported() {
    let remote = from_an_earlier_release().await;
    let names = old_names(&remote);
    let taken = elsewhere(&names[1]).unwrap();
    remote.git(&["update-ref", &taken, &remote.base]);
    let address = remote.path().to_str().unwrap().to_owned();
    let workspaces = remote.workspaces().await;
    let moved = workspaces.move_attempts(&address, &remote.base, &names).await;
    assert_eq!(moved.gone, names[..1]);
    let error = moved.error.unwrap();
    assert!(error.contains("something else"), "{error}");
    assert!(remote.head(&names[1]).is_some());
    assert_eq!(remote.head(&taken), Some(remote.base.clone()));

    // A server that refuses such refs keeps its branches; the error names the setting.
    let remote = from_an_earlier_release().await;
    remote.hook(
        "update",
        "case $1 in refs/ralph/*) echo no such refs here >&2; exit 1;; esac",
    );
    let address = remote.path().to_str().unwrap().to_owned();
    let before = all(&remote, "refs/heads/ralph-attempts");
    let moved = workspaces.move_attempts(&address, &remote.base, &names).await;
    let error = moved.error.unwrap();
    assert!(error.contains("attempts = \"branches\""), "{error}");
    assert_eq!(
        (moved.gone.len(), all(&remote, "refs/heads/ralph-attempts")),
        (0, before)
    );
}

/// Not a test by itself: the test below runs it in a process, which is killed.
#[tokio::test]
async fn process_that_is_killed() {
    let Some(remote) = Remote::of_killer() else {
        return;
    };
    let workspaces = remote.workspaces().await;
    let address = remote.path().to_str().unwrap().to_owned();
    workspaces
        .move_attempts(&address, &remote.base, &old_names(&remote))
        .await;
}

#[tokio::test]
async fn a_move_continues_after_a_kill_at_any_point() {
    for point in MOVE_POINTS {
        let remote = from_an_earlier_release().await;
        let before = all(&remote, "refs/heads/ralph-attempts");
        let test = "landing::attempt_refs::process_that_is_killed";
        remote.kill_at(test, point, &[]).await;
        let workspaces = remote.workspaces().await;
        let address = remote.path().to_str().unwrap().to_owned();
        let names = old_names(&remote);
        let moved = workspaces.move_attempts(&address, &remote.base, &names).await;
        assert_eq!((moved.gone, moved.error), (names, None), "{point}");
        assert_eq!(all(&remote, "refs/ralph/attempts"), before, "{point}");
        assert_eq!(all(&remote, "refs/heads/ralph-attempts").len(), 0, "{point}");
    }
}
