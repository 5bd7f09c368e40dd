//! Workspaces that start with a conflict in their tree, and markers that must not land.

use std::fs;

use ralph_shared::wire::{GitOrder, IntegrationEnd, WorkspaceOrder};
use ralph_worker::workspace::{Workspace, Workspaces};

use crate::remote::{FEATURE, Remote, finish, git, integrate_order};

/// The workspace of `dispatch`, which merges `task`'s attempt with the landed work.
async fn onto_head(
    remote: &Remote,
    workspaces: &Workspaces,
    task: &str,
    dispatch: &str,
    commit: &str,
) -> Workspace {
    let order = GitOrder {
        start: Some(commit.to_owned()),
        start_ref: Some(remote.order(task, task).attempt_ref),
        onto_head: true,
        ..remote.order(task, dispatch)
    };
    let order = WorkspaceOrder::Git(order);
    workspaces.prepare(dispatch, &order).await.unwrap()
}

/// Makes two attempts at `a.txt`, the first of which lands; returns the second's commit.
async fn collide(remote: &Remote, workspaces: &Workspaces) -> String {
    let first = remote.attempt(workspaces, "t-1", "a.txt", "first\n").await;
    let workspace = remote.prepare(workspaces, "t-2").await;
    fs::write(workspace.path().join("a.txt"), "second\n").unwrap();
    fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
    let second = finish(&workspace).await.commit.unwrap();
    workspace.remove().await.unwrap();
    remote
        .integrate(workspaces, "t-1", "i-1", &integrate_order("t-1", &first))
        .await;
    second
}

#[tokio::test]
async fn a_workspace_starts_with_the_conflict_and_lands_once_resolved() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let second = collide(&remote, &workspaces).await;
    let workspace = onto_head(&remote, &workspaces, "t-2", "d-2", &second).await;
    let head = remote.head(FEATURE).unwrap();
    assert_eq!(workspace.start(), Some(head.as_str()));
    let tree = workspace.path();
    let text = fs::read_to_string(tree.join("a.txt")).unwrap();
    let marked = format!("<<<<<<< {head}\nfirst\n||||||| ");
    assert!(text.starts_with(&marked), "{text}");
    assert!(
        text.ends_with(&format!("=======\nsecond\n>>>>>>> {second}\n")),
        "{text}"
    );
    // The agent's own git shows the conflict, and the agent may resolve it in the usual way.
    assert_eq!(git(tree, &["status", "--porcelain"]), "UU a.txt\nA  new.txt");
    assert!(git(tree, &["diff"]).contains("++<<<<<<< "));
    fs::write(tree.join("a.txt"), "first and second\n").unwrap();
    git(tree, &["add", "-A"]);
    git(tree, &["commit", "-q", "--no-edit"]);
    let commit = finish(&workspace).await.commit.unwrap();
    let order = ralph_shared::wire::IntegrateOrder {
        after_conflict: true,
        ..integrate_order("t-2", &commit)
    };
    let integration = GitOrder {
        start_ref: Some(remote.order("t-2", "d-2").attempt_ref),
        ..remote.order("t-2", "i-2")
    };
    let ended = remote
        .integrate_as(&workspaces, "i-2", &integration, &order)
        .await;
    assert!(
        matches!(ended, IntegrationEnd::Merged { empty: false, .. }),
        "{ended:?}"
    );
    assert_eq!(
        remote.git(&["show", &format!("{FEATURE}:a.txt")]),
        "first and second"
    );
    assert_eq!(remote.git(&["show", &format!("{FEATURE}:new.txt")]), "new");
    assert_eq!(remote.git(&["rev-list", "--count", "--merges", FEATURE]), "0");
}

/// An ignored file that an attempt committed on purpose is not part of the conflict.
#[tokio::test]
async fn a_committed_ignored_file_survives_a_conflict() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let first = remote.attempt(&workspaces, "t-1", "a.txt", "first\n").await;
    let workspace = remote.prepare(&workspaces, "t-2").await;
    fs::write(workspace.path().join("a.txt"), "second\n").unwrap();
    fs::write(workspace.path().join(".gitignore"), "*.log\n").unwrap();
    fs::write(workspace.path().join("kept.log"), "kept\n").unwrap();
    git(workspace.path(), &["add", "-f", "kept.log"]);
    let second = finish(&workspace).await.commit.unwrap();
    workspace.remove().await.unwrap();
    assert_eq!(remote.git(&["show", &format!("{second}:kept.log")]), "kept");
    remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &first))
        .await;
    let workspace = onto_head(&remote, &workspaces, "t-2", "d-2", &second).await;
    fs::write(workspace.path().join("a.txt"), "first and second\n").unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    assert_eq!(remote.git(&["show", &format!("{commit}:kept.log")]), "kept");
}

#[tokio::test]
async fn unresolved_conflict_markers_do_not_land() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let second = collide(&remote, &workspaces).await;
    let workspace = onto_head(&remote, &workspaces, "t-2", "d-2", &second).await;
    fs::write(workspace.path().join("else.txt"), "<<<<<<< HEAD\n").unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    let order = ralph_shared::wire::IntegrateOrder {
        after_conflict: true,
        ..integrate_order("t-2", &commit)
    };
    let integration = GitOrder {
        start_ref: Some(remote.order("t-2", "d-2").attempt_ref),
        ..remote.order("t-2", "i-2")
    };
    let before = remote.head(FEATURE);
    let ended = remote
        .integrate_as(&workspaces, "i-2", &integration, &order)
        .await;
    let paths = vec!["a.txt".to_owned()];
    assert_eq!(ended, IntegrationEnd::Unresolved { paths });
    assert_eq!(remote.head(FEATURE), before);
}

#[tokio::test]
async fn a_merge_without_conflict_is_an_uncommitted_change() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let first = remote.attempt(&workspaces, "t-1", "a.txt", "first\n").await;
    let second = remote.attempt(&workspaces, "t-2", "shared.txt", "second\n").await;
    remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &first))
        .await;
    let workspace = onto_head(&remote, &workspaces, "t-2", "d-2", &second).await;
    assert_eq!(git(workspace.path(), &["status", "--porcelain"]), "M  shared.txt");
    let snapshot = finish(&workspace).await;
    assert_eq!(snapshot.files_changed, ["shared.txt"]);
}
