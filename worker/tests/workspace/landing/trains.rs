//! Attempts whose gate runs ahead of their turn, on top of the attempts before them.

use ralph_shared::ids::TaskId;
use ralph_shared::wire::{
    Ahead, FailedTree, Gated, IntegrateOrder, IntegrationEnd, IntegrationReport, PassedTree,
};
use ralph_worker::workspace::Workspaces;

use crate::remote::{BRANCH, FEATURE, Remote, integrate_order};

/// An attempt at its own task.
struct Car {
    task: TaskId,
    commit: String,
}

impl Car {
    async fn new(remote: &Remote, workspaces: &Workspaces, file: &str, text: &str) -> Self {
        let task = TaskId::new();
        let commit = remote.attempt(workspaces, &task.to_string(), file, text).await;
        Self { task, commit }
    }

    fn ahead(&self, remote: &Remote) -> Ahead {
        let name = self.task.to_string();
        Ahead {
            task: self.task,
            commit: self.commit.clone(),
            commit_ref: remote.order(&name, &name).attempt_ref,
        }
    }

    fn order(&self, gate: &str) -> IntegrateOrder {
        IntegrateOrder {
            gate: vec![gate.to_owned()],
            ..integrate_order(&self.task.to_string(), &self.commit)
        }
    }

    async fn check(
        &self,
        remote: &Remote,
        workspaces: &Workspaces,
        order: IntegrateOrder,
        ahead: &[&Car],
    ) -> IntegrationReport {
        let order = IntegrateOrder {
            ahead: Some(ahead.iter().map(|car| car.ahead(remote)).collect()),
            ..order
        };
        let dispatch = format!("check-{}", self.task);
        remote
            .check_ahead(workspaces, &self.task.to_string(), &dispatch, &order)
            .await
    }

    async fn land(&self, remote: &Remote, workspaces: &Workspaces, order: &IntegrateOrder) -> IntegrationEnd {
        let dispatch = format!("turn-{}", self.task);
        remote
            .integrate(workspaces, &self.task.to_string(), &dispatch, order)
            .await
    }
}

fn gated(report: IntegrationReport) -> Gated {
    report.gated.unwrap_or_else(|| panic!("{:?}", report.end))
}

fn passed(tree: &str, tip: Option<&str>) -> Vec<PassedTree> {
    vec![PassedTree {
        tree: tree.to_owned(),
        tip: tip.map(str::to_owned),
    }]
}

#[tokio::test]
async fn a_tree_that_passed_ahead_of_its_turn_lands_without_another_run() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let a = Car::new(&remote, &workspaces, "a.txt", "a\n").await;
    let b = Car::new(&remote, &workspaces, "b.txt", "b\n").await;
    let both = "test -f a.txt && test -f b.txt";
    let report = b.check(&remote, &workspaces, b.order(both), &[&a]).await;
    assert_eq!(report.end, IntegrationEnd::Checked);
    assert_eq!(remote.head(FEATURE), None, "a check lands nothing");
    let tree = gated(report).tree;

    let ended = a.land(&remote, &workspaces, &a.order("true")).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    // A gate that can't pass proves that it does not run.
    let order = IntegrateOrder {
        passed: passed(&tree, None),
        ..b.order("false")
    };
    let ended = b.land(&remote, &workspaces, &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(remote.git(&["rev-parse", &format!("{FEATURE}^{{tree}}")]), tree);
    let body = remote.git(&["log", "-1", "--format=%B", FEATURE]);
    assert!(!body.contains("Ralph-Gate-Tree"), "{body}");
}

#[tokio::test]
async fn a_different_tree_than_the_checked_one_runs_the_gate() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let a = Car::new(&remote, &workspaces, "a.txt", "a\n").await;
    let b = Car::new(&remote, &workspaces, "b.txt", "b\n").await;
    let tree = gated(b.check(&remote, &workspaces, b.order("true"), &[&a]).await).tree;
    // A person pushed, and nothing of the train landed.
    remote.commit(BRANCH, &remote.base, "person.txt", "p\n");
    let order = IntegrateOrder {
        passed: passed(&tree, None),
        ..b.order("test ! -f person.txt")
    };
    let ended = b.land(&remote, &workspaces, &order).await;
    assert!(matches!(ended, IntegrationEnd::GateFailed { .. }), "{ended:?}");
}

#[tokio::test]
async fn a_check_does_not_apply_a_landed_attempt_again() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let a = Car::new(&remote, &workspaces, "a.txt", "a\n").await;
    let b = Car::new(&remote, &workspaces, "b.txt", "b\n").await;
    let before = b.check(&remote, &workspaces, b.order("true"), &[&a]).await;
    a.land(&remote, &workspaces, &a.order("true")).await;
    // Landing the first attempt again must not change the tree.
    let head = remote.head(FEATURE).unwrap();
    let after = b.check(&remote, &workspaces, b.order("true"), &[&a]).await;
    assert_eq!(gated(before).tree, gated(after).tree);
    assert_eq!(remote.head(FEATURE), Some(head));
}

#[tokio::test]
async fn only_the_conflicting_attempt_reports_its_conflict() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let a = Car::new(&remote, &workspaces, "same.txt", "a\n").await;
    let b = Car::new(&remote, &workspaces, "same.txt", "b\n").await;
    let c = Car::new(&remote, &workspaces, "c.txt", "c\n").await;
    let of_b = b.check(&remote, &workspaces, b.order("true"), &[&a]).await.end;
    assert!(
        matches!(&of_b, IntegrationEnd::Conflict { paths, .. } if paths == &["same.txt"]),
        "{of_b:?}"
    );
    let of_c = c
        .check(&remote, &workspaces, c.order("true"), &[&a, &b])
        .await
        .end;
    assert!(matches!(of_c, IntegrationEnd::Void { .. }), "{of_c:?}");
}

#[tokio::test]
async fn a_known_failure_applies_to_its_tree_only() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let a = Car::new(&remote, &workspaces, "a.txt", "a\n").await;
    let failing = a
        .check(&remote, &workspaces, a.order("echo no; false"), &[])
        .await;
    assert!(
        matches!(failing.end, IntegrationEnd::GateFailed { .. }),
        "{failing:?}"
    );
    let known = |tree: &str| IntegrateOrder {
        failed: Some(FailedTree {
            tree: tree.to_owned(),
            command: "echo no; false".to_owned(),
            output: "the known output".to_owned(),
        }),
        ..a.order("true")
    };
    let tree = gated(failing).tree;
    let ended = a.land(&remote, &workspaces, &known(&tree)).await;
    assert!(
        matches!(&ended, IntegrationEnd::GateFailed { output, .. } if output == "the known output"),
        "{ended:?}"
    );
    let other = "0".repeat(40);
    let ended = a.land(&remote, &workspaces, &known(&other)).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
}

#[tokio::test]
async fn a_landing_of_a_batch_names_the_tree_that_passed() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let a = Car::new(&remote, &workspaces, "a.txt", "a\n").await;
    let b = Car::new(&remote, &workspaces, "b.txt", "b\n").await;
    let tip = gated(b.check(&remote, &workspaces, b.order("true"), &[&a]).await);
    let order = IntegrateOrder {
        passed: passed(&tip.ahead[0], Some(&tip.tree)),
        ..a.order("false")
    };
    let ended = a.land(&remote, &workspaces, &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    let body = remote.git(&["log", "-1", "--format=%B", FEATURE]);
    assert!(body.contains(&format!("Ralph-Gate-Tree: {}", tip.tree)), "{body}");
}
