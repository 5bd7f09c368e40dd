//! A branch and one below its name are never at a remote at once; one after the other they may be.

use ralph_shared::wire::{GitOrder, WorkspaceOrder};
use ralph_worker::workspace::Workspaces;

use crate::remote::{Remote, landed};

const UPPER: &str = "refs/heads/release";
const BELOW: &str = "refs/heads/release/2.0";

/// Where a session begins whose feature is on this branch.
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
async fn a_branch_that_is_gone_leaves_room_for_those_below_its_name() {
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

    // And the other way round, with two in the way.
    remote.git(&["update-ref", "-d", BELOW]);
    remote.git(&["update-ref", "-d", "refs/heads/release/3.0"]);
    remote.git(&["update-ref", UPPER, &later]);
    assert_eq!(start(&remote, &workspaces, UPPER, "four").await, later);
}

#[tokio::test]
async fn a_branch_that_is_gone_is_in_nobodys_way_when_all_are_fetched() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let later = remote.commit("side", &remote.base, "b.txt", "b\n");
    remote.git(&["update-ref", UPPER, &later]);
    assert_eq!(start(&remote, &workspaces, UPPER, "one").await, later);

    remote.git(&["update-ref", "-d", UPPER]);
    remote.git(&["update-ref", BELOW, &later]);
    // A commit that the remote doesn't have is looked for below all branches.
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
