//! A branch and one below its name can't exist at a remote together, but one after the other.

use ralph_shared::wire::{GitOrder, WorkspaceOrder};
use ralph_worker::workspace::Workspaces;

use crate::remote::{Remote, landed};

const UPPER: &str = "refs/heads/release";
const BELOW: &str = "refs/heads/release/2.0";

/// The start commit of a session whose feature is on this branch.
async fn start(remote: &Remote, workspaces: &Workspaces, name: &str, dispatch: &str) -> String {
    let order = GitOrder {
        feature_branch: name.trim_start_matches("refs/heads/").to_owned(),
        landed: remote.head(name).map(landed),
        ..remote.order("t-1", dispatch)
    };
    let workspace = workspaces
        .prepare(&remote.dispatch(dispatch), &WorkspaceOrder::Git(order))
        .await
        .unwrap();
    workspace.start().unwrap().to_owned()
}

#[tokio::test]
async fn a_deleted_branch_does_not_block_branches_below_its_name() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let later = remote.commit("side", &remote.base, "b.txt", "b\n");
    remote.git(&["update-ref", UPPER, &later]);
    assert_eq!(start(&remote, &workspaces, UPPER, "one").await, later);

    remote.git(&["update-ref", "-d", UPPER]);
    remote.git(&["update-ref", BELOW, &later]);
    remote.git(&["update-ref", "refs/heads/release/3.0", &later]);
    assert_eq!(start(&remote, &workspaces, BELOW, "two").await, later);
    let third = start(&remote, &workspaces, "refs/heads/release/3.0", "three").await;
    assert_eq!(third, later);

    // The other way round, with two branches in the way.
    remote.git(&["update-ref", "-d", BELOW]);
    remote.git(&["update-ref", "-d", "refs/heads/release/3.0"]);
    remote.git(&["update-ref", UPPER, &later]);
    assert_eq!(start(&remote, &workspaces, UPPER, "four").await, later);
}

#[tokio::test]
async fn a_deleted_branch_does_not_block_a_fetch_of_all_branches() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let later = remote.commit("side", &remote.base, "b.txt", "b\n");
    remote.git(&["update-ref", UPPER, &later]);
    assert_eq!(start(&remote, &workspaces, UPPER, "one").await, later);

    remote.git(&["update-ref", "-d", UPPER]);
    remote.git(&["update-ref", BELOW, &later]);
    // All branches are fetched to find a commit that the remote doesn't have.
    let order = GitOrder {
        start: Some("1".repeat(40)),
        start_ref: Some("refs/ralph/attempts/demo/gone".to_owned()),
        ..remote.order("t-1", "two")
    };
    let workspace = workspaces
        .prepare(&remote.dispatch("two"), &WorkspaceOrder::Git(order))
        .await
        .unwrap();
    assert_eq!(workspace.start(), Some(remote.base.as_str()));
}
