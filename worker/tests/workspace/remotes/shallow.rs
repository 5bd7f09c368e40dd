//! A repository that is itself a shallow clone, of a person or of a CI job: its history is cut.

use std::path::PathBuf;

use ralph_shared::wire::{
    Decided, GitOperation, GitOperationOrder, GitOrder, IntegrationEnd, WorkspaceOrder,
};
use ralph_worker::workspace::{Decision, Workspaces};
use tokio::sync::watch;

use crate::remote::{BRANCH, FEATURE, Remote, finish, git, integrate_order, landed};

/// A shallow clone of the last of three commits, as the feature's repository.
struct Scene {
    remote: Remote,
    clone: PathBuf,
    workspaces: Workspaces,
}

impl Scene {
    async fn new() -> Self {
        let mut remote = Remote::new();
        let second = remote.commit("main", &remote.base, "b.txt", "b\n");
        remote.base = remote.commit("main", &second, "c.txt", "c\n");
        let origin = format!("file://{}", remote.path().display());
        let arguments = ["clone", "-q", "--depth", "1", &origin, "shallow"];
        git(remote.dir.path(), &arguments);
        let clone = remote.data("shallow");
        remote.address = Some(clone.display().to_string());
        Self {
            workspaces: remote.workspaces().await,
            remote,
            clone,
        }
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.clone, arguments)
    }

    /// Adds the coordinator's knowledge of the last landing.
    fn order(&self, of: GitOrder) -> GitOrder {
        let head = self.git(&["for-each-ref", "--format=%(objectname)", FEATURE]);
        GitOrder {
            landed: (!head.is_empty()).then(|| landed(head)),
            ..of
        }
    }

    /// Completes a task and lands it.
    async fn land(&self, task: &str) -> IntegrationEnd {
        let order = WorkspaceOrder::Git(self.order(self.remote.order(task, task)));
        let workspace = self.workspaces.prepare(task, &order).await.unwrap();
        git(
            workspace.path(),
            &["fsck", "--connectivity-only", "--no-dangling"],
        );
        assert_eq!(git(workspace.path(), &["status", "--porcelain"]), "");
        std::fs::write(workspace.path().join(format!("{task}.txt")), "new\n").unwrap();
        let commit = finish(&workspace).await.commit.unwrap();
        workspace.remove().await.unwrap();
        let dispatch = format!("i-{task}");
        let git_order = self.order(self.remote.integration_order(task, &dispatch));
        let order = integrate_order(task, &commit);
        self.remote
            .integrate_as(&self.workspaces, &dispatch, &git_order, &order)
            .await
    }

    async fn update(&self, dispatch: &str) -> IntegrationEnd {
        let order = GitOperationOrder {
            operation: GitOperation::Update {
                branch: "main".to_owned(),
                brings: None,
            },
            subject: "Take main in".to_owned(),
            body: String::new(),
            gate: Vec::new(),
            steps: Vec::new(),
            passed: Vec::new(),
        };
        let git = self.order(self.remote.order("t-9", dispatch));
        let decide = |_: Decided| async { Decision::Push };
        let (_sender, end) = watch::channel(None);
        self.workspaces
            .operate(dispatch, &git, &order, decide, end)
            .await
            .end
    }
}

#[tokio::test]
async fn work_lands_in_a_shallow_clone() {
    let scene = Scene::new().await;
    for task in ["t-1", "t-2"] {
        let ended = scene.land(task).await;
        assert!(
            matches!(ended, IntegrationEnd::Merged { .. }),
            "{task}: {ended:?}"
        );
    }
    assert_eq!(scene.git(&["rev-list", "--count", BRANCH]), "3");
    scene.git(&["fsck", "--connectivity-only"]);
    // After an unshallow, work continues.
    scene.git(&["fetch", "-q", "--unshallow"]);
    let ended = scene.land("t-3").await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(scene.git(&["rev-list", "--count", BRANCH]), "6");
}

#[tokio::test]
async fn histories_separated_by_a_shallow_clone_give_advice() {
    let scene = Scene::new().await;
    let ended = scene.land("t-1").await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    let next = scene.remote.commit("main", &scene.remote.base, "d.txt", "d\n");
    scene.remote.commit("main", &next, "e.txt", "e\n");
    scene.git(&["fetch", "-q", "--depth", "1", "origin", "main"]);
    scene.git(&["reset", "-q", "--hard", "FETCH_HEAD"]);
    let ended = scene.update("u-1").await;
    let IntegrationEnd::Failed {
        message,
        retry: false,
        away: false,
    } = ended
    else {
        panic!("{ended:?}")
    };
    assert!(message.contains("run `git fetch --unshallow` in it"), "{message}");
    scene.git(&["fetch", "-q", "--unshallow"]);
    let ended = scene.update("u-2").await;
    assert!(
        matches!(ended, IntegrationEnd::Updated { commit: Some(_), .. }),
        "{ended:?}"
    );
}
