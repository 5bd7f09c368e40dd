//! A person's repository with a checkout: the checkout follows pushes unless that would lose changes.

use std::fs;
use std::path::Path;

use ralph_shared::wire::{GitOperation, GitOperationOrder, GitOrder, IntegrationEnd, MergeHow};
use ralph_worker::workspace::{Decision, Workspaces};
use tokio::sync::watch;

use crate::remote::{FEATURE, Remote, git, integrate_order, landed};

/// An order of the coordinator for the repository in `person`.
fn order(remote: &Remote, person: &Path, task: &str, dispatch: &str) -> GitOrder {
    let head = git(person, &["for-each-ref", "--format=%(objectname)", FEATURE]);
    GitOrder {
        landed: (!head.is_empty()).then(|| landed(head)),
        ..remote.integration_order(task, dispatch)
    }
}

async fn land(remote: &Remote, workspaces: &Workspaces, person: &Path, task: &str) -> IntegrationEnd {
    let commit = remote
        .attempt(workspaces, task, &format!("{task}.txt"), "new\n")
        .await;
    let dispatch = format!("i-{task}");
    let git = order(remote, person, task, &dispatch);
    remote
        .integrate_as(workspaces, &dispatch, &git, &integrate_order(task, &commit))
        .await
}

async fn merge(remote: &Remote, workspaces: &Workspaces, person: &Path, dispatch: &str) -> IntegrationEnd {
    let order_of_merge = GitOperationOrder {
        operation: GitOperation::Merge {
            branch: "main".to_owned(),
            how: MergeHow::Ff,
            head: remote.base.clone(),
            at_end: true,
        },
        subject: "Merge".to_owned(),
        body: String::new(),
        gate: Vec::new(),
        steps: Vec::new(),
        passed: Vec::new(),
    };
    let (_sender, end) = watch::channel(None);
    let git = order(remote, person, "t-9", dispatch);
    let decide = |_| async { Decision::Push };
    workspaces
        .operate(dispatch, &git, &order_of_merge, decide, end)
        .await
        .end
}

fn failure(ended: IntegrationEnd) -> String {
    match ended {
        IntegrationEnd::Failed {
            message,
            retry: false,
            away: false,
        } => message,
        ended => panic!("{ended:?}"),
    }
}

#[tokio::test]
async fn a_checkout_follows_pushes_unless_it_has_changes() {
    let mut remote = Remote::new();
    let person = remote.data("person");
    git(remote.dir.path(), &["clone", "-q", "repo.git", "person"]);
    remote.address = Some(person.display().to_string());
    let workspaces = remote.workspaces().await;
    let ended = land(&remote, &workspaces, &person, "t-1").await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    let ended = merge(&remote, &workspaces, &person, "m-1").await;
    assert!(matches!(ended, IntegrationEnd::Delivered { .. }), "{ended:?}");
    assert_eq!(fs::read_to_string(person.join("t-1.txt")).unwrap(), "new\n");
    assert_eq!(git(&person, &["status", "--porcelain"]), "");

    // The same applies to the feature's own branch.
    git(&person, &["switch", "-q", "ralph/demo"]);
    let ended = land(&remote, &workspaces, &person, "t-2").await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert!(person.join("t-2.txt").exists());
    git(&person, &["switch", "-q", "main"]);

    fs::write(person.join("a.txt"), "being worked on\n").unwrap();
    let before = git(&person, &["rev-parse", "main"]);
    let message = failure(merge(&remote, &workspaces, &person, "m-2").await);
    assert!(message.contains("commit or stash them"), "{message}");
    assert_eq!(git(&person, &["rev-parse", "main"]), before);
    assert_eq!(
        fs::read_to_string(person.join("a.txt")).unwrap(),
        "being worked on\n"
    );
    git(&person, &["stash", "-q"]);
    // An untracked file is not overwritten.
    fs::write(person.join("t-2.txt"), "mine\n").unwrap();
    failure(merge(&remote, &workspaces, &person, "m-3").await);
    assert_eq!(fs::read_to_string(person.join("t-2.txt")).unwrap(), "mine\n");
    fs::remove_file(person.join("t-2.txt")).unwrap();
    let ended = merge(&remote, &workspaces, &person, "m-4").await;
    assert!(matches!(ended, IntegrationEnd::Delivered { .. }), "{ended:?}");
}

/// A setting of the repository for such pushes is not overridden.
#[tokio::test]
async fn a_repository_that_refuses_pushes_to_its_checkout_is_respected() {
    let mut remote = Remote::new();
    let person = remote.data("person");
    git(remote.dir.path(), &["clone", "-q", "repo.git", "person"]);
    remote.address = Some(person.display().to_string());
    let workspaces = remote.workspaces().await;
    let ended = land(&remote, &workspaces, &person, "t-1").await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    let before = git(&person, &["rev-parse", "main"]);
    git(&person, &["config", "receive.denyCurrentBranch", "refuse"]);
    let message = failure(merge(&remote, &workspaces, &person, "m-1").await);
    assert!(
        message.contains("receive.denyCurrentBranch updateInstead"),
        "{message}"
    );
    assert_eq!(git(&person, &["rev-parse", "main"]), before);
    assert!(!person.join("t-1.txt").exists());
    git(&person, &["switch", "-q", "-c", "mine"]);
    let ended = merge(&remote, &workspaces, &person, "m-2").await;
    assert!(matches!(ended, IntegrationEnd::Delivered { .. }), "{ended:?}");
    assert_ne!(git(&person, &["rev-parse", "main"]), before);

    // `ignore` moves the branch under the files.
    git(&person, &["switch", "-q", "main"]);
    git(&person, &["config", "receive.denyCurrentBranch", "ignore"]);
    land(&remote, &workspaces, &person, "t-2").await;
    let ended = merge(&remote, &workspaces, &person, "m-3").await;
    assert!(matches!(ended, IntegrationEnd::Delivered { .. }), "{ended:?}");
    assert!(!person.join("t-2.txt").exists());
}
