//! Build output of landed work, reused in later checkouts.

use std::fs;
use std::path::Path;

use ralph_shared::wire::{GitOperation, GitOperationOrder, GitOrder, IntegrationEnd, WorkspaceOrder};
use ralph_worker::sandbox::{SandboxMode, shared_path};
use ralph_worker::workspace::{Decision, Settings, WarmRule, Workspace, Workspaces};
use tokio::sync::watch;

use crate::remote::{Remote, finish, integrate_order};

/// A repository with a gate that builds as `make` does, only if the source is newer than the output, and
/// counts its builds.
struct Scene {
    remote: Remote,
    settings: Settings,
    workspaces: Workspaces,
    gate: Vec<String>,
}

impl Scene {
    async fn new() -> Self {
        Self::with(WarmRule::default()).await
    }

    async fn with(warm: WarmRule) -> Self {
        let remote = Remote::new();
        let base = remote.commit("main", &remote.base, ".gitignore", "target\n");
        let base = remote.commit("main", &base, "source.txt", "one\n");
        let remote = Remote { base, ..remote };
        let counts = remote.data("counts");
        fs::create_dir(&counts).unwrap();
        let build = format!(
            "mkdir -p target && if ! test -e target/out || test source.txt -nt target/out; \
             then cp source.txt target/out; echo x >> {}/built; fi; cmp source.txt target/out",
            counts.display()
        );
        let mut settings = Settings {
            warm,
            ..Settings::default()
        };
        settings.sandbox.write.push(counts);
        let workspaces = Workspaces::open_with(&remote.data("data"), settings.clone())
            .await
            .unwrap();
        Self {
            remote,
            settings,
            workspaces,
            gate: vec![build],
        }
    }

    fn builds(&self) -> usize {
        let path = self.remote.data("counts").join("built");
        fs::read_to_string(path).unwrap_or_default().lines().count()
    }

    /// Runs the gate on the base, as the coordinator orders once.
    async fn check_base(&self, dispatch: &str) {
        let order = GitOperationOrder {
            operation: GitOperation::Check {
                commit: self.remote.base.clone(),
                gate: self.gate.clone(),
                because: None,
            },
            subject: String::new(),
            body: String::new(),
            gate: self.gate.clone(),
            steps: Vec::new(),
            passed: Vec::new(),
        };
        let git = self.remote.order("t-9", dispatch);
        let (_sender, end) = watch::channel(None);
        let decide = |_| async { Decision::Push };
        let dispatch = self.remote.dispatch(dispatch);
        let ended = self
            .workspaces
            .operate(&dispatch, &git, &order, decide, end)
            .await
            .end;
        assert!(matches!(ended, IntegrationEnd::Checked), "{ended:?}");
    }

    async fn session(&self, task: &str) -> Workspace {
        let workspace = self.remote.prepare(&self.workspaces, task).await;
        workspace.set_up(&self.settings).await.unwrap();
        workspace
    }

    /// Completes a task that writes a file, and integrates its work with this decision.
    async fn lands(&self, task: &str, file: &str, text: &str, decision: Decision) -> IntegrationEnd {
        let commit = self.remote.attempt(&self.workspaces, task, file, text).await;
        let mut order = integrate_order(task, &commit);
        order.gate = self.gate.clone();
        let git = self.remote.integration_order(task, &format!("i-{task}"));
        let (_sender, end) = watch::channel(None);
        let decide = |_| {
            let decision = decision.clone();
            async { decision }
        };
        let dispatch = self.remote.dispatch(&format!("i-{task}"));
        self.workspaces
            .integrate(&dispatch, &git, &order, decide, end)
            .await
            .end
    }
}

fn built(workspace: &Workspace) -> Option<String> {
    fs::read_to_string(workspace.path().join("target/out")).ok()
}

#[tokio::test]
async fn sessions_and_gates_build_only_what_changed_since_the_last_landing() {
    let scene = Scene::new().await;
    scene.check_base("c-1").await;
    assert_eq!(scene.builds(), 1);
    assert_eq!(built(&scene.session("t-1").await).as_deref(), Some("one\n"));

    let ended = scene.lands("t-2", "other.txt", "x\n", Decision::Push).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(scene.builds(), 1, "the source is the same");

    let ended = scene.lands("t-3", "source.txt", "two\n", Decision::Push).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(scene.builds(), 2);
    let session = scene.session("t-4").await;
    assert_eq!(built(&session).as_deref(), Some("two\n"));
    // The output is no part of the session's work.
    assert_eq!(finish(&session).await.files_changed, Vec::<String>::new());
}

#[tokio::test]
async fn output_of_sessions_and_refused_work_is_not_shared() {
    let scene = Scene::new().await;
    scene.check_base("c-1").await;
    let refused = Decision::Refused {
        reason: "no".to_owned(),
    };
    let ended = scene.lands("t-1", "source.txt", "evil\n", refused).await;
    assert!(!matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(scene.builds(), 2, "its gate passed");

    let session = scene.session("t-2").await;
    assert_eq!(built(&session).as_deref(), Some("one\n"));
    fs::write(session.path().join("target/out"), "poison\n").unwrap();
    assert_eq!(built(&scene.session("t-3").await).as_deref(), Some("one\n"));
}

#[tokio::test]
async fn folders_too_large_or_no_longer_ignored_are_not_reused() {
    let scene = Scene::with(WarmRule {
        most_bytes: 1,
        ..WarmRule::default()
    })
    .await;
    scene.check_base("c-1").await;
    assert_eq!(built(&scene.session("t-1").await), None);

    let scene = Scene::new().await;
    scene.check_base("c-1").await;
    let ended = scene.lands("t-1", ".gitignore", "else\n", Decision::Push).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(built(&scene.session("t-2").await), None, "the output would land");
}

#[tokio::test]
async fn a_cold_checkout_starts_without_build_output() {
    let scene = Scene::new().await;
    assert_eq!(scene.workspaces.warm_bytes(), 0);
    scene.check_base("c-1").await;
    let bytes = scene.workspaces.warm_bytes();
    assert!(bytes > 0);
    let order = GitOrder {
        cold: true,
        ..scene.remote.order("t-1", "t-1")
    };
    let order = WorkspaceOrder::Git(order);
    let workspace = scene.workspaces.prepare("t-1", &order).await.unwrap();
    workspace.set_up(&scene.settings).await.unwrap();
    assert_eq!(built(&workspace), None);
    assert_eq!(
        scene.workspaces.warm_bytes(),
        bytes,
        "the output is there for others"
    );
    assert_eq!(built(&scene.session("t-2").await).as_deref(), Some("one\n"));
}

#[tokio::test]
async fn without_configured_folders_no_output_is_stored() {
    let scene = Scene::with(WarmRule {
        folders: Vec::new(),
        ..WarmRule::default()
    })
    .await;
    scene.check_base("c-1").await;
    scene.check_base("c-2").await;
    assert_eq!((scene.builds(), built(&scene.session("t-1").await)), (2, None));
}

/// Cargo rebuilds a dependency if the path of its source changes, and rustc a crate if its folder changes.
#[tokio::test]
async fn a_gate_runs_by_the_same_paths_in_each_checkout() {
    let mut tried = 0;
    for mode in [SandboxMode::Landlock, SandboxMode::Bubblewrap] {
        let mut scene = Scene::new().await;
        let settings = &mut scene.settings;
        settings.sandbox.mode = mode;
        // A folder of the machine in the configured list hides no file of the session.
        settings.sandbox.read.push("/run".into());
        if shared_path(&settings.sandbox, Path::new("/w"), Path::new("/w/tree")).is_none() {
            continue;
        }
        tried += 1;
        let settings = settings.clone();
        scene.workspaces = Workspaces::open_with(&scene.remote.data("other"), settings)
            .await
            .unwrap();
        let seen = scene.remote.data("counts").join("seen");
        scene.gate = vec![format!(
            "git status --short; touch $HOME/a $TMPDIR/b && ls source.txt && ! ls /.ralph-session && ! touch /.ralph-session/c && \
             echo $PWD $(pwd -P) $HOME $TMPDIR ${{CARGO_HOME:-$HOME/.cargo}} >> {}",
            seen.display()
        )];
        scene.check_base("c-1").await;
        scene.check_base("c-2").await;
        let line = "/.ralph-session/tree /.ralph-session/tree /.ralph-session/home /.ralph-session/tmp /.ralph-session/home/.cargo\n";
        assert_eq!(fs::read_to_string(seen).unwrap(), line.repeat(2), "{mode:?}");
    }
    eprintln!("{tried} kinds of sandbox have their own root here");
}
