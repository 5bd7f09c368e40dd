//! Attempts that an earlier release put among branches move to refs of their own, whoever dies on the way, and none is lost.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use ralph_shared::attempts::elsewhere;
use ralph_worker::faults::MOVE_POINTS;

use crate::remote::{FEATURE, Remote, finish};

/// Where the killed life finds the remote; its presence says that this process is that life.
const LIFE: &str = "RALPH_TEST_MOVING_LIFE";

/// The names of two attempts among branches.
fn old_names(remote: &Remote) -> Vec<String> {
    let of = |task: &&str| elsewhere(&remote.order(task, task).attempt_ref).unwrap();
    ["t-1", "t-2"].iter().map(of).collect()
}

/// Two attempts as an earlier release left them, one with something beside it.
async fn as_before() -> Remote {
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
async fn attempts_move_with_what_is_beside_them_and_nothing_else_does() {
    let remote = as_before().await;
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

    // What was moved is pruned by its old name, and built on by it.
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
async fn what_is_in_the_way_stays_where_it_is_and_is_told() {
    let remote = as_before().await;
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

    // A server that takes no such refs keeps its branches, and says which key there is.
    let remote = as_before().await;
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

/// Not a test by itself: the life that is killed, run by the test below in a process of its own.
#[tokio::test]
async fn life_that_is_killed() {
    let Some(dir) = std::env::var_os(LIFE).map(PathBuf::from) else {
        return;
    };
    let remote = Remote::at(&dir);
    let workspaces = remote.workspaces().await;
    let address = remote.path().to_str().unwrap().to_owned();
    workspaces
        .move_attempts(&address, &remote.base, &old_names(&remote))
        .await;
}

#[tokio::test]
async fn a_killed_worker_leaves_the_rest_of_a_move_to_the_next() {
    for point in MOVE_POINTS {
        let remote = as_before().await;
        let before = all(&remote, "refs/heads/ralph-attempts");
        let status = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "landing::attempt_refs::life_that_is_killed"])
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
        let names = old_names(&remote);
        let moved = workspaces.move_attempts(&address, &remote.base, &names).await;
        assert_eq!((moved.gone, moved.error), (names, None), "{point}");
        assert_eq!(all(&remote, "refs/ralph/attempts"), before, "{point}");
        assert_eq!(all(&remote, "refs/heads/ralph-attempts").len(), 0, "{point}");
    }
}
