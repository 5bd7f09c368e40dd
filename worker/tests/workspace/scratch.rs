//! Sessions without a repository, whose files are on no branch.

use std::fs;
use std::path::PathBuf;

use ralph_shared::wire::WorkspaceOrder;
use ralph_worker::workspace::{CommitMessage, Workspaces};

#[tokio::test]
async fn files_of_a_session_that_died_with_its_worker_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let workspaces = Workspaces::open(&data).await.unwrap();
    let order = WorkspaceOrder::Scratch;
    let workspace = workspaces.prepare("t-1", &order).await.unwrap();
    fs::write(workspace.path().join("half.txt"), "half\n").unwrap();
    let judged = workspaces.prepare_throw_away("t-2", &order).await.unwrap();
    fs::write(judged.path().join("notes.txt"), "notes\n").unwrap();
    assert!(
        workspaces.unpushed().await.is_empty(),
        "the workspaces are still in use"
    );
    drop((workspace, judged));

    let next = Workspaces::open(&data).await.unwrap();
    let mut found = next.unpushed().await;
    assert_eq!(found.len(), 1, "{found:?}");
    let workspace = found.remove(0);
    assert_eq!(workspace.dispatch(), "t-1");
    let leftover = workspace.finish(&CommitMessage::default()).await.left.unwrap();
    assert_eq!(leftover.files, 1);
    let path = PathBuf::from(leftover.path.unwrap());
    workspace.remove().await.unwrap();
    assert_eq!(fs::read_to_string(path.join("half.txt")).unwrap(), "half\n");
    assert!(next.unpushed().await.is_empty());
    assert_eq!(fs::read_dir(data.join("workspaces")).unwrap().count(), 0);
}
