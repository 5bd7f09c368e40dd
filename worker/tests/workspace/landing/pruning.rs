//! Refs of old attempts are removed from the remote, even if a worker is killed, and nothing else is.

use ralph_worker::faults::PRUNE_POINTS;

use crate::remote::{FEATURE, Remote, integrate_order};

fn names(remote: &Remote, tasks: &[&str]) -> Vec<String> {
    tasks
        .iter()
        .map(|task| remote.order(task, task).attempt_ref)
        .collect()
}

/// A remote with two attempts, the second of which landed.
async fn with_attempts() -> Remote {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    remote.attempt(&workspaces, "t-1", "one.txt", "one\n").await;
    let commit = remote.attempt(&workspaces, "t-2", "two.txt", "two\n").await;
    let order = integrate_order("t-2", &commit);
    remote.integrate(&workspaces, "t-2", "i-2", &order).await;
    remote
}

#[tokio::test]
async fn only_the_named_refs_are_pruned() {
    let remote = with_attempts().await;
    let workspaces = remote.workspaces().await;
    let address = remote.path().to_str().unwrap().to_owned();
    let landing = remote.order("t-2", "i-2").attempt_ref;
    let mut go = names(&remote, &["t-2", "t-unknown"]);
    go.push(landing.clone());
    let pruned = workspaces.prune(&address, &remote.base, &go).await;
    assert_eq!(pruned.error, None);
    assert_eq!(pruned.gone, go);
    assert_eq!(remote.head(&landing), None);
    assert!(remote.head(&names(&remote, &["t-1"])[0]).is_some());
    assert!(remote.head(FEATURE).is_some());

    // Only refs of attempts are ever removed.
    let pruned = workspaces
        .prune(&address, &remote.base, &[FEATURE.to_owned()])
        .await;
    assert!(pruned.gone.is_empty() && pruned.error.unwrap().contains("no ref of an attempt"));
    assert!(remote.head(FEATURE).is_some());

    // A refusal by a hook is reported; the other refs are removed.
    remote.attempt(&workspaces, "t-3", "three.txt", "three\n").await;
    remote.hook(
        "update",
        "case $1 in */t-3/*) echo 'GH006: Protected branch' >&2; exit 1;; esac",
    );
    let go = names(&remote, &["t-1", "t-3"]);
    let pruned = workspaces.prune(&address, &remote.base, &go).await;
    assert_eq!(pruned.gone, go[..1]);
    let error = pruned.error.unwrap();
    assert!(error.contains("the server declined it"), "{error}");
}

/// Not a test by itself: the test below runs it in a process, which is killed.
#[tokio::test]
async fn process_that_is_killed() {
    let Some(remote) = Remote::of_killer() else {
        return;
    };
    let workspaces = remote.workspaces().await;
    let address = remote.path().to_str().unwrap().to_owned();
    let names = names(&remote, &["t-1", "t-2"]);
    workspaces.prune(&address, &remote.base, &names).await;
}

#[tokio::test]
async fn pruning_continues_after_a_kill_at_any_point() {
    for point in PRUNE_POINTS {
        let remote = with_attempts().await;
        let test = "landing::pruning::process_that_is_killed";
        remote.kill_at(test, point, &[]).await;
        let workspaces = remote.workspaces().await;
        let address = remote.path().to_str().unwrap().to_owned();
        let names = names(&remote, &["t-1", "t-2"]);
        let pruned = workspaces.prune(&address, &remote.base, &names).await;
        assert_eq!((pruned.gone, pruned.error), (names.clone(), None), "{point}");
        assert_eq!(remote.landings("t-2"), 1, "{point}");
        remote.git(&["fsck", "--strict"]);
    }
}
