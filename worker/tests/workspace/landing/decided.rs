//! Decided pushes: refused, lost on the way, or continued by another worker.

use ralph_shared::wire::{Decided, IntegrateOrder, IntegrationEnd};
use ralph_worker::workspace::{Decision, Workspaces};
use tokio::sync::watch;

use crate::remote::{BRANCH, FEATURE, Remote, integrate_order};

/// An integration that was decided, and whose worker died before its push.
async fn decided(remote: &Remote, workspaces: &Workspaces) -> IntegrateOrder {
    let commit = remote.attempt(workspaces, "t-1", "new.txt", "new\n").await;
    let order = integrate_order("t-1", &commit);
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let decide = |decided: Decided| async {
        sender.send(decided).unwrap();
        Decision::Unanswered {
            reason: "cut off".to_owned(),
        }
    };
    let (_sender, end) = watch::channel(None);
    let git = remote.integration_order("t-1", "i-1");
    let ended = workspaces.integrate("i-1", &git, &order, decide, end).await.end;
    assert!(
        matches!(ended, IntegrationEnd::Failed { retry: true, .. }),
        "{ended:?}"
    );
    IntegrateOrder {
        resume: Some(receiver.await.unwrap()),
        ..order
    }
}

#[tokio::test]
async fn a_decided_integration_is_pushed_by_another_worker() {
    let remote = Remote::new();
    let order = decided(&remote, &remote.workspaces().await).await;
    let other = Workspaces::open(&remote.data("other")).await.unwrap();
    let ended = remote.integrate(&other, "t-1", "r-1", &order).await;
    let new = order.resume.clone().unwrap().new;
    assert_eq!(
        ended,
        IntegrationEnd::Merged {
            commit: new.clone(),
            empty: false
        }
    );
    assert_eq!(remote.head(FEATURE), Some(new.clone()));
    // Pushed twice, with further work on top: merged once.
    remote.commit(BRANCH, &new, "later.txt", "later\n");
    assert_eq!(remote.integrate(&other, "t-1", "r-2", &order).await, ended);
    assert_eq!(remote.landings("t-1"), 1);
}

#[tokio::test]
async fn a_decided_integration_is_void_if_the_branch_moved() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let order = decided(&remote, &workspaces).await;
    let head = remote.commit(BRANCH, &remote.base, "other.txt", "other\n");
    let ended = remote.integrate(&workspaces, "t-1", "r-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Void { .. }), "{ended:?}");
    assert_eq!(remote.head(FEATURE), Some(head));
    let turn = IntegrateOrder {
        resume: None,
        ..order
    };
    let again = remote.integrate(&workspaces, "t-1", "i-2", &turn).await;
    assert!(matches!(again, IntegrationEnd::Merged { .. }), "{again:?}");
}

#[tokio::test]
async fn a_push_is_void_if_the_branch_moved_after_the_decision() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let decide = |_| async {
        remote.commit(BRANCH, &remote.base, "other.txt", "other\n");
        Decision::Push
    };
    let (_sender, end) = watch::channel(None);
    let git = remote.integration_order("t-1", "i-1");
    let ended = workspaces
        .integrate("i-1", &git, &integrate_order("t-1", &commit), decide, end)
        .await
        .end;
    assert!(matches!(ended, IntegrationEnd::Void { .. }), "{ended:?}");
    assert_eq!(remote.landings("t-1"), 0);
}

#[tokio::test]
async fn a_refusing_server_is_a_failure_with_reason_and_advice() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let refuse = format!(
        "while read old new ref; do [ $ref = {FEATURE} ] && echo 'closed until Monday' >&2 && exit 1; done; exit 0"
    );
    remote.hook("pre-receive", &refuse);
    let ended = remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &commit))
        .await;
    let IntegrationEnd::Failed { message, retry, away } = ended else {
        panic!("{ended:?}")
    };
    assert!(!retry && !away);
    for part in [
        "the server declined it",
        "closed until Monday",
        "to do: let the worker push",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(remote.head(FEATURE), None);
}

#[tokio::test]
async fn an_absent_repository_does_not_fail_the_attempt() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let order = integrate_order("t-1", &commit);
    let git = remote.integration_order("t-1", "i-1");
    let aside = remote.data("aside.git");
    std::fs::rename(remote.path(), &aside).unwrap();
    let ended = remote.integrate_as(&workspaces, "i-1", &git, &order).await;
    assert!(
        matches!(
            ended,
            IntegrationEnd::Failed {
                retry: false,
                away: true,
                ..
            }
        ),
        "{ended:?}"
    );
    std::fs::rename(&aside, remote.path()).unwrap();
    let ended = remote.integrate(&workspaces, "t-1", "i-2", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
}

#[tokio::test]
async fn a_push_whose_answer_was_lost_is_verified() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    // The server takes the push and dies before it answers.
    let die = format!("while read old new ref; do [ $ref = {FEATURE} ] && kill -9 $PPID; done; exit 0");
    remote.hook("post-receive", &die);
    let ended = remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &commit))
        .await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(remote.landings("t-1"), 1);
}

#[tokio::test]
async fn a_push_is_retried_after_a_server_failure() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let once = remote.data("once");
    let fail = format!(
        "while read old new ref; do [ $ref = {FEATURE} ] && mkdir {} 2>/dev/null && kill -9 $PPID; done; exit 0",
        once.display()
    );
    remote.hook("pre-receive", &fail);
    let ended = remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &commit))
        .await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert!(once.exists());
    assert_eq!(remote.landings("t-1"), 1);
}
