//! Branch operations without an agent: done once, however often they start or are killed.

use ralph_shared::ids::TaskId;
use ralph_shared::wire::{
    Decided, GitOperation, GitOperationOrder, GitOrder, IntegrationEnd, MergeHow, PassedTree,
};
use ralph_worker::faults::OPERATION_POINTS;
use ralph_worker::workspace::{Decision, TASK_TRAILER, Workspaces};
use tokio::sync::watch;

use crate::remote::{BRANCH, FEATURE, Remote, integrate_order};

/// The operation of the process that is killed, as JSON.
const OPERATION: &str = "RALPH_TEST_OPERATION";

fn order(operation: GitOperation, gate: &[&str]) -> GitOperationOrder {
    GitOperationOrder {
        operation,
        subject: "Change a branch".to_owned(),
        body: String::new(),
        gate: gate.iter().map(|command| (*command).to_owned()).collect(),
        steps: Vec::new(),
        passed: Vec::new(),
    }
}

async fn operate(remote: &Remote, dispatch: &str, order: &GitOperationOrder) -> IntegrationEnd {
    let workspaces = remote.workspaces().await;
    operate_in(remote, &workspaces, dispatch, order).await
}

async fn operate_in(
    remote: &Remote,
    workspaces: &Workspaces,
    dispatch: &str,
    order: &GitOperationOrder,
) -> IntegrationEnd {
    let git = GitOrder {
        trailers: [(TASK_TRAILER.to_owned(), "t-9".to_owned())].into(),
        ..remote.order("t-9", dispatch)
    };
    let (_sender, end) = watch::channel(None);
    let decide = |_: Decided| async { Decision::Push };
    let dispatch = remote.dispatch(dispatch);
    workspaces.operate(&dispatch, &git, order, decide, end).await.end
}

/// A remote whose feature has landed `new.txt`, and the landed commit.
async fn landed() -> (Remote, String) {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &commit))
        .await;
    let head = remote.head(FEATURE).unwrap();
    (remote, head)
}

fn update() -> GitOperation {
    GitOperation::Update {
        branch: "main".to_owned(),
        brings: None,
    }
}

fn merge(how: MergeHow, head: &str) -> GitOperation {
    GitOperation::Merge {
        branch: "main".to_owned(),
        how,
        head: head.to_owned(),
        at_end: false,
    }
}

fn revert(commit: &str) -> GitOperation {
    GitOperation::Revert {
        task: TaskId(uuid::Uuid::nil()),
        commit: commit.to_owned(),
        redo: Vec::new(),
    }
}

/// Not a test by itself: the test below runs it in a process, which is killed.
#[tokio::test]
async fn process_that_is_killed() {
    let Some(remote) = Remote::of_killer() else {
        return;
    };
    let operation = std::env::var(OPERATION).unwrap();
    let order = order(serde_json::from_str(&operation).unwrap(), &[]);
    operate(&remote, "killed", &order).await;
}

#[tokio::test]
async fn an_operation_killed_at_any_point_is_done_once() {
    for point in OPERATION_POINTS {
        for kind in ["update", "revert", "squash", "merge"] {
            let (remote, head) = landed().await;
            let moved = remote.commit("main", &remote.base, "else.txt", "else\n");
            let operation = match kind {
                "update" => update(),
                "revert" => revert(&head),
                "squash" => merge(MergeHow::Squash, &head),
                _ => merge(MergeHow::Merge, &head),
            };
            let json = serde_json::to_string(&operation).unwrap();
            let test = "landing::operating::process_that_is_killed";
            remote.kill_at(test, point, &[(OPERATION, &json)]).await;
            let ended = operate(&remote, "again", &order(operation, &[])).await;
            let done = matches!(
                ended,
                IntegrationEnd::Merged { .. }
                    | IntegrationEnd::Delivered { .. }
                    | IntegrationEnd::Updated { .. }
            );
            assert!(done, "{point} {kind}: {ended:?}");
            let (branch, since) = match kind {
                "update" | "revert" => (FEATURE, head.as_str()),
                _ => ("refs/heads/main", moved.as_str()),
            };
            let range = format!("{since}..{branch}");
            let commits = remote.git(&["rev-list", "--count", "--first-parent", &range]);
            assert_eq!(commits, "1", "{point} {kind}");
            remote.git(&["fsck", "--strict"]);
        }
    }
}

#[tokio::test]
async fn an_impossible_merge_gives_advice_and_moves_nothing() {
    let (remote, head) = landed().await;
    let moved = remote.commit("main", &remote.base, "new.txt", "other\n");
    for how in [MergeHow::Ff, MergeHow::Merge, MergeHow::Squash] {
        let ended = operate(&remote, how.into_str(), &order(merge(how, &head), &[])).await;
        let IntegrationEnd::Failed {
            message,
            retry: false,
            away: false,
        } = ended
        else {
            panic!("{how}: {ended:?}")
        };
        assert!(message.contains("feature update"), "{message}");
    }
    let command = operate(&remote, "command", &order(merge(MergeHow::Command, &head), &[])).await;
    // Another worker may have a command.
    let IntegrationEnd::Failed {
        message,
        retry: true,
        away: true,
    } = command
    else {
        panic!("{command:?}")
    };
    assert!(message.contains("[workspace] on_complete"), "{message}");
    let elsewhere = GitOperation::Merge {
        branch: "release".to_owned(),
        how: MergeHow::Merge,
        head,
        at_end: false,
    };
    let ended = operate(&remote, "elsewhere", &order(elsewhere, &[])).await;
    let IntegrationEnd::Failed {
        message,
        retry: false,
        away: false,
    } = ended
    else {
        panic!("{ended:?}")
    };
    assert!(message.contains("there is no branch `release`"), "{message}");
    assert_eq!(remote.head("refs/heads/main"), Some(moved));
}

#[tokio::test]
async fn the_gate_runs_on_exactly_the_commit_that_becomes_the_head() {
    let (remote, head) = landed().await;
    remote.commit("main", &remote.base, "else.txt", "else\n");
    let both = "test -f new.txt && test -f else.txt";
    let refused = order(merge(MergeHow::Merge, &head), &[both, "false"]);
    let ended = operate(&remote, "refused", &refused).await;
    let IntegrationEnd::GateFailed { command, .. } = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(command, "false");
    let ended = operate(&remote, "passed", &order(merge(MergeHow::Merge, &head), &[both])).await;
    assert!(
        matches!(ended, IntegrationEnd::Delivered { empty: false, .. }),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_gate_that_passed_on_the_tree_of_a_merge_does_not_run_again() {
    let (remote, head) = landed().await;
    let tree = remote.git(&["rev-parse", &format!("{head}^{{tree}}")]);
    // A gate that can't pass proves whether it runs.
    let knowing = |tree: &str| GitOperationOrder {
        passed: vec![PassedTree {
            tree: tree.to_owned(),
            tip: None,
        }],
        ..order(merge(MergeHow::Merge, &head), &["false"])
    };
    let ended = operate(&remote, "m-1", &knowing(&remote.base)).await;
    assert!(matches!(ended, IntegrationEnd::GateFailed { .. }), "{ended:?}");
    let ended = operate(&remote, "m-2", &knowing(&tree)).await;
    assert!(matches!(ended, IntegrationEnd::Delivered { .. }), "{ended:?}");
}

#[tokio::test]
async fn nothing_is_pushed_if_the_coordinator_refuses() {
    let (remote, head) = landed().await;
    let workspaces = remote.workspaces().await;
    let (_sender, end) = watch::channel(None);
    let decide = |_: Decided| async {
        Decision::Refused {
            reason: "the task has another dispatch".to_owned(),
        }
    };
    let git = remote.order("t-9", "refused");
    let order = order(revert(&head), &[]);
    let ended = workspaces.operate("refused", &git, &order, decide, end).await.end;
    assert!(matches!(ended, IntegrationEnd::Told { .. }), "{ended:?}");
    assert_eq!(remote.head(FEATURE), Some(head));
}

#[tokio::test]
async fn an_operation_starts_over_if_its_branch_moves() {
    let (remote, head) = landed().await;
    remote.commit("main", &remote.base, "else.txt", "else\n");
    let workspaces = remote.workspaces().await;
    let (_sender, end) = watch::channel(None);
    let asked = std::sync::atomic::AtomicU32::new(0);
    let decide = |_: Decided| {
        if asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
            remote.commit(BRANCH, &head, "third.txt", "third\n");
        }
        async { Decision::Push }
    };
    let git = remote.order("t-9", "moved");
    let ended = workspaces
        .operate("moved", &git, &order(update(), &[]), decide, end)
        .await
        .end;
    assert!(matches!(ended, IntegrationEnd::Updated { .. }), "{ended:?}");
    assert_eq!(asked.into_inner(), 2);
    for file in ["new.txt", "else.txt", "third.txt"] {
        remote.git(&["show", &format!("{FEATURE}:{file}")]);
    }
}

#[tokio::test]
async fn a_reverted_landing_may_land_again() {
    let (remote, head) = landed().await;
    // The trailer contains the task's short id.
    let named = TaskId(uuid::Uuid::nil());
    let workspaces = remote.workspaces().await;
    let task = named.to_string();
    let commit = remote.attempt(&workspaces, &task, "more.txt", "more\n").await;
    let landing = integrate_order(&task, &commit);
    let first = remote.integrate(&workspaces, &task, "i-2", &landing).await;
    let IntegrationEnd::Merged { commit, .. } = &first else {
        panic!("{first:?}")
    };
    let ended = operate(&remote, "r-1", &order(revert(commit), &[])).await;
    assert!(
        matches!(ended, IntegrationEnd::Merged { empty: false, .. }),
        "{ended:?}"
    );
    let files = || remote.git(&["ls-tree", "--name-only", FEATURE]);
    assert!(
        files().contains("new.txt") && !files().contains("more.txt"),
        "{}",
        files()
    );
    let message = remote.git(&["show", "-s", "--format=%B", FEATURE]);
    assert!(message.contains(&format!("Ralph-Reverts: {named}")), "{message}");
    // Another revert of the same landing, by its own task, finds it reverted and adds nothing.
    let reverted = remote.head(FEATURE);
    let git = GitOrder {
        trailers: [(TASK_TRAILER.to_owned(), "t-8".to_owned())].into(),
        ..remote.order("t-8", "r-2")
    };
    let (_sender, end) = watch::channel(None);
    let decide = |_: Decided| async { Decision::Push };
    let obsolete = workspaces
        .operate("r-2", &git, &order(revert(commit), &[]), decide, end)
        .await
        .end;
    assert!(
        matches!(obsolete, IntegrationEnd::Merged { empty: true, .. }),
        "{obsolete:?}"
    );
    assert_eq!(remote.head(FEATURE), reverted);
    // A repeated change lands instead of being taken for the earlier landing.
    let order = GitOrder {
        start: remote.head(FEATURE),
        ..remote.order(&task, "again")
    };
    let order = ralph_shared::wire::WorkspaceOrder::Git(order);
    let workspace = workspaces.prepare("again", &order).await.unwrap();
    std::fs::write(workspace.path().join("more.txt"), "better\n").unwrap();
    let snapshot = crate::remote::finish(&workspace).await;
    let again = integrate_order(&task, &snapshot.commit.unwrap());
    let ended = remote.integrate(&workspaces, &task, "i-3", &again).await;
    assert!(
        matches!(ended, IntegrationEnd::Merged { .. }) && ended != first,
        "{ended:?}"
    );
    assert_eq!(remote.git(&["show", &format!("{FEATURE}:more.txt")]), "better");
    assert_ne!(remote.head(FEATURE), Some(head));
}

#[tokio::test]
async fn a_resolved_update_lands_on_a_worker_without_the_base() {
    let (remote, head) = landed().await;
    let base = remote.commit("main", &remote.base, "new.txt", "other\n");
    let ended = operate(&remote, "u-1", &order(update(), &[])).await;
    assert!(
        matches!(&ended, IntegrationEnd::Conflict { source: Some(source), .. } if *source == base),
        "{ended:?}"
    );
    let workspaces = remote.workspaces().await;
    let start = GitOrder {
        start: Some(base.clone()),
        start_ref: Some("refs/heads/main".to_owned()),
        onto_head: true,
        ..remote.order("t-9", "work")
    };
    let start = ralph_shared::wire::WorkspaceOrder::Git(start);
    let workspace = workspaces.prepare("work", &start).await.unwrap();
    std::fs::write(workspace.path().join("new.txt"), "both\n").unwrap();
    let commit = crate::remote::finish(&workspace).await.commit.unwrap();
    let landing = ralph_shared::wire::IntegrateOrder {
        brings: Some(base.clone()),
        brings_ref: Some("refs/heads/main".to_owned()),
        ..integrate_order("t-9", &commit)
    };
    let git = GitOrder {
        start_ref: Some(remote.order("t-9", "work").attempt_ref),
        ..remote.order("t-9", "i-9")
    };
    let elsewhere = Workspaces::open(&remote.data("another")).await.unwrap();
    let ended = remote.integrate_as(&elsewhere, "i-9", &git, &landing).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    let parents = remote.git(&["show", "-s", "--format=%P", FEATURE]);
    assert_eq!(parents, format!("{head} {base}"));
    assert_eq!(remote.git(&["show", &format!("{FEATURE}:new.txt")]), "both");
}

/// A gate runs code that agents wrote: none of its files may be there when the user's own command runs.
#[tokio::test]
async fn the_merge_command_runs_in_a_clean_checkout() {
    let (remote, head) = landed().await;
    let settings = ralph_worker::workspace::Settings {
        on_complete: Some("! test -e planted && ! grep -q planted .git/config && test -f new.txt".to_owned()),
        sandbox: ralph_worker::sandbox::Sandbox {
            mode: ralph_worker::sandbox::SandboxMode::None,
            ..Default::default()
        },
        ..Default::default()
    };
    let workspaces = Workspaces::open_with(&remote.data("data"), settings)
        .await
        .unwrap();
    let plants = "touch planted && echo '# planted' >> .git/config";
    let order = order(merge(MergeHow::Command, &head), &[plants]);
    let ended = operate_in(&remote, &workspaces, "handed", &order).await;
    assert!(matches!(ended, IntegrationEnd::Delivered { .. }), "{ended:?}");
}

/// The answer to the first push was lost, or a person had to decide, and meanwhile more landed.
#[tokio::test]
async fn a_repeated_merge_includes_later_landings() {
    for how in [MergeHow::Merge, MergeHow::Squash] {
        let (remote, head) = landed().await;
        remote.commit("main", &remote.base, "else.txt", "else\n");
        let order = order(merge(how, &head), &[]);
        let ended = operate(&remote, "first", &order).await;
        assert!(
            matches!(ended, IntegrationEnd::Delivered { .. }),
            "{how}: {ended:?}"
        );
        let merged = remote.head("refs/heads/main");
        operate(&remote, "again", &order).await;
        assert_eq!(remote.head("refs/heads/main"), merged, "{how}");

        let workspaces = remote.workspaces().await;
        let commit = remote.attempt(&workspaces, "t-2", "more.txt", "more\n").await;
        remote
            .integrate(&workspaces, "t-2", "i-2", &integrate_order("t-2", &commit))
            .await;
        let ended = operate(&remote, "later", &order).await;
        let IntegrationEnd::Delivered { landed, .. } = ended else {
            panic!("{how}: {ended:?}")
        };
        assert_eq!(landed, remote.head(FEATURE), "{how}");
        let files = remote.git(&["ls-tree", "--name-only", "refs/heads/main"]);
        assert!(files.contains("more.txt"), "{how}: {files}");
    }
}
