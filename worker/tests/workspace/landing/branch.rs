//! A feature's branch that lost its landings, or that belongs to somebody else: nothing is built on it.

use ralph_shared::wire::{
    GitOperation, GitOperationOrder, GitOrder, IntegrationEnd, MergeHow, WorkspaceOrder,
};
use ralph_worker::workspace::Decision;
use tokio::sync::watch;

use crate::remote::{BRANCH, FEATURE, Remote, git, integrate_order, landed};

/// A remote whose feature has landed `one.txt`.
struct Scene {
    remote: Remote,
    /// The landed commit.
    first: String,
    /// The feature's base, as the coordinator knows it.
    base: String,
}

impl Scene {
    async fn new() -> Self {
        let remote = Remote::new();
        let base = remote.base.clone();
        let workspaces = remote.workspaces().await;
        let commit = remote.attempt(&workspaces, "t-1", "one.txt", "1\n").await;
        let order = integrate_order("t-1", &commit);
        remote.integrate(&workspaces, "t-1", "i-1", &order).await;
        let first = remote.head(FEATURE).unwrap();
        Self { remote, first, base }
    }

    /// An order of the coordinator, which knows the first landing.
    fn order(&self, task: &str, dispatch: &str) -> GitOrder {
        GitOrder {
            landed: Some(landed(self.first.clone())),
            base: self.base.clone(),
            ..self.remote.order(task, dispatch)
        }
    }

    /// Makes an attempt at `task` and integrates it.
    async fn land(&self, task: &str, dispatch: &str) -> IntegrationEnd {
        let workspaces = self.remote.workspaces().await;
        let work = self.order(task, &format!("{dispatch}-work"));
        let workspace = workspaces
            .prepare(&format!("{dispatch}-work"), &WorkspaceOrder::Git(work.clone()))
            .await
            .unwrap();
        std::fs::write(workspace.path().join(format!("{task}.txt")), task).unwrap();
        let commit = crate::remote::finish(&workspace).await.commit.unwrap();
        workspace.remove().await.unwrap();
        let order = GitOrder {
            start_ref: Some(work.attempt_ref),
            ..self.order(task, dispatch)
        };
        self.remote
            .integrate_as(&workspaces, dispatch, &order, &integrate_order(task, &commit))
            .await
    }

    async fn operate(&self, dispatch: &str, operation: GitOperation) -> IntegrationEnd {
        let order = GitOperationOrder {
            operation,
            subject: "Change a branch".to_owned(),
            body: String::new(),
            gate: Vec::new(),
            steps: Vec::new(),
            passed: Vec::new(),
        };
        let (_sender, end) = watch::channel(None);
        let git = self.order(&format!("t-{dispatch}"), dispatch);
        let workspaces = self.remote.workspaces().await;
        workspaces
            .operate(dispatch, &git, &order, |_| async { Decision::Push }, end)
            .await
            .end
    }

    async fn merge(&self, dispatch: &str, how: MergeHow) -> IntegrationEnd {
        let operation = GitOperation::Merge {
            branch: "main".to_owned(),
            how,
            head: self.first.clone(),
            at_end: false,
        };
        self.operate(dispatch, operation).await
    }

    async fn update(&self, dispatch: &str) -> IntegrationEnd {
        let operation = GitOperation::Update {
            branch: "main".to_owned(),
            brings: None,
        };
        self.operate(dispatch, operation).await
    }

    fn files(&self, branch: &str) -> String {
        self.remote.git(&["ls-tree", "--name-only", branch])
    }
}

/// The message of a failure that a retry can't fix.
fn refused(ended: IntegrationEnd) -> String {
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
async fn nothing_lands_on_a_deleted_branch_until_it_is_restored() {
    let scene = Scene::new().await;
    scene.remote.git(&["update-ref", "-d", FEATURE]);
    let way_back = format!("{}:{FEATURE}", scene.first);
    let message = refused(scene.land("t-2", "i-2").await);
    assert!(
        message.contains(&way_back) && message.contains("is not in"),
        "{message}"
    );
    for how in [MergeHow::Ff, MergeHow::Merge, MergeHow::Squash, MergeHow::Command] {
        let message = refused(scene.merge(&format!("m-{how}"), how).await);
        assert!(message.contains(&way_back), "{how}: {message}");
    }
    assert!(refused(scene.update("u-1").await).contains(&way_back));
    let revert = GitOperation::Revert {
        task: ralph_shared::ids::TaskId(uuid::Uuid::nil()),
        commit: scene.first.clone(),
        redo: Vec::new(),
    };
    assert!(refused(scene.operate("r-1", revert).await).contains(&way_back));
    assert_eq!(scene.remote.head(FEATURE), None);
    // Follow the message, from an empty clone.
    let clone = scene.remote.data("person");
    git(scene.remote.dir.path(), &["init", "-q", "person"]);
    let address = scene.remote.path().display().to_string();
    git(&clone, &["fetch", "-q", &address, &scene.first]);
    git(&clone, &["push", "-q", &address, &way_back]);
    let ended = scene.land("t-3", "i-3").await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert!(scene.files(FEATURE).contains("one.txt"));
}

/// An agent's work during that time is not lost: it starts from the landed commit.
#[tokio::test]
async fn work_starts_from_the_landed_commit_of_a_deleted_branch() {
    let scene = Scene::new().await;
    scene.remote.git(&["update-ref", "-d", FEATURE]);
    let workspaces = scene.remote.workspaces().await;
    let order = WorkspaceOrder::Git(scene.order("t-2", "d-2"));
    let workspace = workspaces.prepare("d-2", &order).await.unwrap();
    assert_eq!(workspace.start(), Some(scene.first.as_str()));
}

#[tokio::test]
async fn nothing_lands_on_a_branch_that_was_moved_back() {
    let scene = Scene::new().await;
    let other = scene
        .remote
        .commit("other", &scene.remote.base, "other.txt", "other\n");
    for head in [&scene.remote.base, &other] {
        scene.remote.git(&["update-ref", FEATURE, head]);
        let message = refused(scene.land("t-2", &format!("i-{head}")).await);
        assert!(message.contains(&format!("without {}", scene.first)), "{message}");
        let message = refused(scene.merge(&format!("m-{head}"), MergeHow::Merge).await);
        assert!(message.contains(&scene.first), "{message}");
        assert!(refused(scene.update(&format!("u-{head}")).await).contains(&scene.first));
        assert_eq!(scene.remote.head(FEATURE).as_ref(), Some(head));
    }
}

/// A person may rewrite the branch if the landings' trailers are still there.
#[tokio::test]
async fn work_continues_on_a_rewritten_branch_with_its_landings() {
    let scene = Scene::new().await;
    let named = landed(String::new()).task.to_string();
    let tree = scene.remote.git(&["rev-parse", &format!("{FEATURE}^{{tree}}")]);
    let message = format!("Rewritten\n\nRalph-Task: {named}");
    let seed = scene.remote.dir.path().join("seed");
    git(&seed, &["fetch", "-q", "origin", FEATURE]);
    let new = git(
        &seed,
        &["commit-tree", "-p", &scene.remote.base, "-m", &message, &tree],
    );
    git(&seed, &["push", "-qf", "origin", &format!("{new}:{FEATURE}")]);
    let ended = scene.land("t-2", "i-2").await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(scene.remote.git(&["rev-parse", &format!("{FEATURE}^")]), new);
}

#[tokio::test]
async fn a_branch_that_existed_before_the_first_landing_is_not_touched() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "one.txt", "1\n").await;
    let theirs = remote.commit(BRANCH, &remote.base, "theirs.txt", "theirs\n");
    let order = |dispatch: &str| GitOrder {
        landed: None,
        ..remote.integration_order("t-1", dispatch)
    };
    let ended = remote
        .integrate_as(
            &workspaces,
            "i-1",
            &order("i-1"),
            &integrate_order("t-1", &commit),
        )
        .await;
    let message = refused(ended);
    assert!(message.contains("another `--branch`"), "{message}");
    assert_eq!(remote.head(FEATURE), Some(theirs));
    // At the base, the branch contains nobody's work.
    remote.git(&["update-ref", FEATURE, &remote.base]);
    let ended = remote
        .integrate_as(
            &workspaces,
            "i-2",
            &order("i-2"),
            &integrate_order("t-1", &commit),
        )
        .await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
}

/// As after the restore of a backup that is older than the landings.
#[tokio::test]
async fn a_branch_with_unknown_landings_is_kept() {
    let scene = Scene::new().await;
    let (remote, workspaces) = (&scene.remote, scene.remote.workspaces().await);
    let order = |task: &str, dispatch: &str| GitOrder {
        landed: None,
        ..remote.integration_order(task, dispatch)
    };
    let commit = remote.attempt(&workspaces, "t-2", "two.txt", "2\n").await;
    let second = integrate_order("t-2", &commit);
    let ended = remote
        .integrate_as(&workspaces, "i-2", &order("t-2", "i-2"), &second)
        .await;
    let message = refused(ended);
    for part in ["t-1", &scene.first, "backup", "Keep the branch"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("remove it"), "{message}");
    assert_eq!(remote.head(FEATURE).as_ref(), Some(&scene.first));

    // Follow the message: another integration finds the landing.
    let attempt = remote.head(&remote.order("t-1", "t-1").attempt_ref).unwrap();
    let ended = remote
        .integrate_as(
            &workspaces,
            "i-3",
            &order("t-1", "i-3"),
            &integrate_order("t-1", &attempt),
        )
        .await;
    let found = IntegrationEnd::Merged {
        commit: scene.first.clone(),
        empty: false,
    };
    assert_eq!(ended, found);
    assert_eq!(remote.landings("t-1"), 1);
}

/// The usual end of a branch: its base has everything, and a continued feature starts there.
#[tokio::test]
async fn a_feature_continues_after_its_branch_was_merged_and_deleted() {
    for how in [MergeHow::Ff, MergeHow::Merge, MergeHow::Squash] {
        let mut scene = Scene::new().await;
        scene
            .remote
            .commit("main", &scene.remote.base, "else.txt", "else\n");
        if how == MergeHow::Ff {
            scene
                .remote
                .git(&["update-ref", "refs/heads/main", &scene.remote.base]);
        }
        let ended = scene.merge("m-1", how).await;
        let IntegrationEnd::Delivered { landed, .. } = ended else {
            panic!("{how}: {ended:?}")
        };
        assert_eq!(landed.as_ref(), Some(&scene.first));
        let main = scene.remote.head("refs/heads/main").unwrap();
        scene.remote.git(&["update-ref", "-d", FEATURE]);
        let again = scene.merge("m-2", how).await;
        assert!(
            matches!(again, IntegrationEnd::Delivered { empty: true, .. }),
            "{how}: {again:?}"
        );
        let updated = scene.update("u-1").await;
        let expected = IntegrationEnd::Updated {
            commit: None,
            base: main.clone(),
        };
        assert_eq!(updated, expected, "{how}");
        scene.base = main;
        let ended = scene.land("t-2", "i-2").await;
        assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{how}: {ended:?}");
        assert!(scene.files(FEATURE).contains("one.txt"), "{how}");
    }
}

/// After a squash of the branch into its base, the next merge brings only later commits.
#[tokio::test]
async fn a_squashed_landing_does_not_conflict_with_later_ones() {
    for then in ["squash", "merge", "update"] {
        let mut scene = Scene::new().await;
        let workspaces = scene.remote.workspaces().await;
        let ended = scene.merge("m-1", MergeHow::Squash).await;
        assert!(matches!(ended, IntegrationEnd::Delivered { .. }), "{ended:?}");
        let commit = scene
            .remote
            .attempt(&workspaces, "t-2", "one.txt", "another\n")
            .await;
        let order = integrate_order("t-2", &commit);
        scene.remote.integrate(&workspaces, "t-2", "i-2", &order).await;
        scene.first = scene.remote.head(FEATURE).unwrap();
        let main = scene.remote.head("refs/heads/main").unwrap();
        scene.remote.commit("main", &main, "else.txt", "else\n");
        let (ended, branch) = match then {
            "squash" => (scene.merge("m-2", MergeHow::Squash).await, "main"),
            "merge" => (scene.merge("m-2", MergeHow::Merge).await, "main"),
            _ => (scene.update("u-2").await, FEATURE),
        };
        let done = matches!(
            ended,
            IntegrationEnd::Delivered { empty: false, .. } | IntegrationEnd::Updated { .. }
        );
        assert!(done, "{then}: {ended:?}");
        let shown = scene.remote.git(&["show", &format!("{branch}:one.txt")]);
        assert_eq!(shown, "another", "{then}");
        assert!(scene.files(branch).contains("else.txt"), "{then}");
    }
}

/// As git hosts do: no trailer says that the branch was merged into its base, and the branch is gone.
#[tokio::test]
async fn a_feature_continues_after_a_host_squashed_or_rebased_its_branch() {
    for how in ["squash", "rebase", "squash of another"] {
        let mut scene = Scene::new().await;
        let ended = scene.land("t-2", "i-2").await;
        assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{how}: {ended:?}");
        scene.first = scene.remote.head(FEATURE).unwrap();
        let main = scene
            .remote
            .commit("main", &scene.remote.base, "else.txt", "else\n");
        let seed = scene.remote.dir.path().join("seed");
        git(&seed, &["fetch", "-q", "origin", FEATURE]);
        git(&seed, &["checkout", "-q", "--detach", &main]);
        match how {
            "rebase" => drop(git(
                &seed,
                &["cherry-pick", &format!("{}..FETCH_HEAD", scene.base)],
            )),
            _ => {
                git(&seed, &["merge", "-q", "--squash", "FETCH_HEAD"]);
                if how != "squash" {
                    std::fs::write(seed.join("one.txt"), "reviewed\n").unwrap();
                }
                git(&seed, &["add", "-A"]);
                git(&seed, &["commit", "-q", "-m", "The feature (#1)"]);
            }
        }
        git(&seed, &["push", "-q", "origin", "HEAD:main"]);
        scene.remote.commit("main", "HEAD", "later.txt", "later\n");
        let main = scene.remote.head("refs/heads/main").unwrap();
        scene.remote.git(&["update-ref", "-d", FEATURE]);
        if how == "squash of another" {
            assert!(refused(scene.update("u-1").await).contains(&scene.first));
            assert!(refused(scene.merge("m-1", MergeHow::Squash).await).contains(&scene.first));
            continue;
        }
        let expected = IntegrationEnd::Updated {
            commit: None,
            base: main.clone(),
        };
        assert_eq!(scene.update("u-1").await, expected, "{how}");
        let again = scene.merge("m-1", MergeHow::Squash).await;
        assert!(
            matches!(again, IntegrationEnd::Delivered { empty: true, .. }),
            "{how}: {again:?}"
        );
        scene.base = main;
        let ended = scene.land("t-3", "i-3").await;
        assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{how}: {ended:?}");
        assert!(scene.files(FEATURE).contains("later.txt"), "{how}");
    }
}
