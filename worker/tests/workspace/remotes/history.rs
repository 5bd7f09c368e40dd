//! Shallow and partial mirrors.

use std::fs;

use ralph_shared::wire::IntegrationEnd;
use ralph_worker::workspace::{History, Settings, Workspaces};

use crate::remote::{BRANCH, FEATURE, Remote, finish, git, integrate_order};

/// A repository with thirty commits, served by URL; the middle one is the base.
fn scene() -> Remote {
    let remote = Remote::new();
    let mut from = remote.base.clone();
    let mut base = String::new();
    for number in 0..30 {
        from = remote.commit("main", &from, "count.txt", &format!("{number}\n"));
        if number == 15 {
            base = from.clone();
        }
    }
    remote.git(&["config", "uploadpack.allowFilter", "true"]);
    let address = format!("file://{}", remote.path().display());
    Remote {
        base,
        address: Some(address),
        ..remote
    }
}

async fn open(remote: &Remote, name: &str, history: History) -> Workspaces {
    let settings = Settings {
        history,
        ..Settings::default()
    };
    Workspaces::open_with(&remote.data(name), settings).await.unwrap()
}

fn mirror(remote: &Remote, name: &str) -> std::path::PathBuf {
    let mirrors = fs::read_dir(remote.data(name).join("mirrors")).unwrap().flatten();
    let mut dirs = mirrors.map(|entry| entry.path()).filter(|path| path.is_dir());
    dirs.next().unwrap()
}

#[tokio::test]
async fn a_shallow_history_is_deepened_when_a_merge_needs_it() {
    let remote = scene();
    let shallow = History {
        depth: Some(2),
        filter: None,
    };
    let workspaces = open(&remote, "data", shallow).await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    assert_eq!(git(workspace.path(), &["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(git(workspace.path(), &["status", "--porcelain"]), "");
    fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    // The branch grows beyond any shallow history.
    let mut head = remote.base.clone();
    for number in 0..20 {
        head = remote.commit(BRANCH, &head, "other.txt", &format!("{number}\n"));
    }
    let other = workspaces_of_another(&remote).await;
    let order = integrate_order("t-1", &commit);
    let ended = remote.integrate(&other, "t-1", "i-1", &order).await;
    assert!(
        matches!(ended, IntegrationEnd::Merged { empty: false, .. }),
        "{ended:?}"
    );
    assert_eq!(remote.git(&["rev-parse", &format!("{FEATURE}^")]), head);
    let mut onwards = remote.git(&["rev-parse", FEATURE]);
    for number in 0..40 {
        onwards = remote.commit(BRANCH, &onwards, "more.txt", &format!("{number}\n"));
    }
    // The task has landed already, however far back.
    let third = open(
        &remote,
        "third",
        History {
            depth: Some(1),
            filter: None,
        },
    )
    .await;
    let again = remote.integrate(&third, "t-1", "i-2", &order).await;
    assert_eq!(again, ended);
    assert_eq!(remote.landings("t-1"), 1);
    remote.git(&["fsck", "--strict"]);
}

async fn workspaces_of_another(remote: &Remote) -> Workspaces {
    let shallow = History {
        depth: Some(1),
        filter: None,
    };
    open(remote, "other", shallow).await
}

#[tokio::test]
async fn a_partial_mirror_has_the_files_of_the_start_and_no_older_ones() {
    let remote = scene();
    let partial = History {
        depth: None,
        filter: Some("blob:none".to_owned()),
    };
    let workspaces = open(&remote, "data", partial).await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    assert_eq!(
        fs::read_to_string(workspace.path().join("count.txt")).unwrap(),
        "15\n"
    );
    // The agent has no credentials, so all files of its start are there.
    git(workspace.path(), &["remote", "remove", "origin"]);
    assert_eq!(git(workspace.path(), &["diff", "--stat", "HEAD"]), "");
    let missing = git(
        &mirror(&remote, "data"),
        &["rev-list", "--objects", "--missing=print", &remote.base],
    );
    assert!(
        missing.lines().filter(|line| line.starts_with('?')).count() >= 15,
        "{missing}"
    );

    fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    remote.commit(BRANCH, &remote.base, "count.txt", "other\n");
    let order = integrate_order("t-1", &commit);
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(remote.git(&["show", &format!("{FEATURE}:count.txt")]), "other");
}
