//! Caches and refs that were unused for a month are removed, and nothing else is.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ralph_shared::wire::{GitOrder, WorkspaceOrder};
use ralph_worker::workspace::{Forgotten, Workspace, Workspaces};

use crate::remote::{Remote, finish, git};

const OLD: &str = "refs/ralph/attempts/demo/t-0/1-old";

/// A cache that was last used this many days ago.
fn cache(remote: &Remote, name: &str, days: u64) -> PathBuf {
    let cache = remote.data("data/caches/repository/base").join(name);
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join("installed"), "much\n").unwrap();
    let used = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    File::open(&cache).unwrap().set_modified(used).unwrap();
    cache
}

#[tokio::test]
async fn caches_unused_for_a_month_are_removed_without_a_budget() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let (fresh, old) = (cache(&remote, "deps-1", 29), cache(&remote, "deps-2", 31));
    let expected = Forgotten { caches: 1, refs: 0 };
    assert_eq!(workspaces.forget_unused().await, expected);
    assert!(fresh.join("installed").exists() && !old.exists());
    assert_eq!(workspaces.forget_unused().await, Forgotten::default());
}

/// An attempt of long ago, which another one continues.
fn old_attempt(remote: &Remote) -> String {
    let tree = remote.git(&["rev-parse", &format!("{}^{{tree}}", remote.base)]);
    let who = "T <t@t> 1000000000 +0000";
    let text = format!(
        "tree {tree}\nparent {}\nauthor {who}\ncommitter {who}\n\nOld\n",
        remote.base
    );
    let file = remote.data("commit");
    fs::write(&file, text).unwrap();
    let commit = remote.git(&["hash-object", "-t", "commit", "-w", file.to_str().unwrap()]);
    remote.git(&["update-ref", OLD, &commit]);
    commit
}

async fn from(remote: &Remote, workspaces: &Workspaces, start_ref: &str, dispatch: &str) -> Workspace {
    let order = GitOrder {
        start: remote.head(start_ref),
        start_ref: Some(start_ref.to_owned()),
        ..remote.order("t-0", dispatch)
    };
    let prepared = workspaces.prepare(dispatch, &WorkspaceOrder::Git(order)).await;
    prepared.unwrap()
}

fn refs(mirror: &Path) -> String {
    git(
        mirror,
        &["for-each-ref", "--format=%(refname)", "refs/ralph/attempts/"],
    )
}

#[tokio::test]
async fn refs_of_old_attempts_leave_a_mirror_once_unused() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let old = old_attempt(&remote);
    remote.attempt(&workspaces, "t-1", "one.txt", "one\n").await;
    let young = remote.order("t-1", "t-1").attempt_ref;
    let going_on = from(&remote, &workspaces, OLD, "d-1").await;
    let other = from(&remote, &workspaces, &young, "d-2").await;
    other.remove().await.unwrap();
    let mirrors = fs::read_dir(remote.data("data/mirrors")).unwrap().flatten();
    let mut mirrors = mirrors.map(|entry| entry.path()).filter(|path| path.is_dir());
    let mirror = mirrors.next().unwrap();
    let both = format!("{OLD}\n{young}");
    assert_eq!(refs(&mirror), both);
    assert_eq!(
        workspaces.forget_unused().await,
        Forgotten::default(),
        "a workspace starts from the ref"
    );
    assert_eq!(refs(&mirror), both);

    finish(&going_on).await;
    going_on.remove().await.unwrap();
    let expected = Forgotten { caches: 0, refs: 1 };
    assert_eq!(workspaces.forget_unused().await, expected);
    assert_eq!(refs(&mirror), young);
    // The objects are still lent, and the ref can be fetched again.
    git(&mirror, &["cat-file", "-e", &old]);
    let again = from(&remote, &workspaces, OLD, "d-3").await;
    assert_eq!(again.start(), Some(old.as_str()));
}
