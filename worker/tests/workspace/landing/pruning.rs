//! Refs of old attempts go from the remote, whoever dies on the way, and nothing else does.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use ralph_worker::faults::PRUNE_POINTS;

use crate::remote::{FEATURE, Remote, integrate_order};

/// Where the killed life finds the remote; its presence says that this process is that life.
const LIFE: &str = "RALPH_TEST_PRUNING_LIFE";

fn names(remote: &Remote, tasks: &[&str]) -> Vec<String> {
    tasks
        .iter()
        .map(|task| remote.order(task, task).attempt_ref)
        .collect()
}

/// Two attempts; the second one landed.
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
async fn named_refs_go_and_others_stay() {
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

    // Nothing but attempts is ever removed.
    let pruned = workspaces
        .prune(&address, &remote.base, &[FEATURE.to_owned()])
        .await;
    assert!(pruned.gone.is_empty() && pruned.error.unwrap().contains("no ref of an attempt"));
    assert!(remote.head(FEATURE).is_some());

    // A hook that refuses is said; what it let go is gone all the same.
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

/// Not a test by itself: the life that is killed, run by the test below in a process of its own.
#[tokio::test]
async fn life_that_is_killed() {
    let Some(dir) = std::env::var_os(LIFE).map(PathBuf::from) else {
        return;
    };
    let remote = Remote::at(&dir);
    let workspaces = remote.workspaces().await;
    let address = remote.path().to_str().unwrap().to_owned();
    let names = names(&remote, &["t-1", "t-2"]);
    workspaces.prune(&address, &remote.base, &names).await;
}

#[tokio::test]
async fn a_killed_worker_leaves_the_rest_to_the_next() {
    for point in PRUNE_POINTS {
        let remote = with_attempts().await;
        let status = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "landing::pruning::life_that_is_killed"])
            .env(LIFE, remote.dir.path())
            .env("RALPH_FAULT", format!("{point}:kill"))
            .env("RALPH_FAULT_ONCE", remote.data("killed"))
            .output()
            .await
            .unwrap()
            .status;
        assert_eq!(status.signal(), Some(9), "{point}: {status}");
        let workspaces = remote.workspaces().await;
        let address = remote.path().to_str().unwrap().to_owned();
        let names = names(&remote, &["t-1", "t-2"]);
        let pruned = workspaces.prune(&address, &remote.base, &names).await;
        assert_eq!((pruned.gone, pruned.error), (names.clone(), None), "{point}");
        assert_eq!(remote.landings("t-2"), 1, "{point}");
        remote.git(&["fsck", "--strict"]);
    }
}
