//! Caches: folders that setup fills once for each state of their key files.

use std::fs;
use std::path::PathBuf;

use ralph_shared::wire::{GitOrder, IntegrationEnd, WorkspaceOrder};
use ralph_worker::workspace::{CacheRule, Settings, Workspace, Workspaces};

use crate::remote::{BRANCH, Remote, finish, git, integrate_order};

/// A repository with a lock file, and a cache whose command counts its runs.
struct Scene {
    remote: Remote,
    settings: Settings,
    workspaces: Workspaces,
}

impl Scene {
    async fn new() -> Self {
        Self::filled_by("mkdir deps.log && cp lock.txt deps.log/installed").await
    }

    async fn filled_by(command: &str) -> Self {
        let remote = Remote::new();
        let base = remote.commit("main", &remote.base, "lock.txt", "one\n");
        let remote = Remote { base, ..remote };
        let counts = remote.data("counts");
        fs::create_dir(&counts).unwrap();
        let rule = CacheRule {
            name: "deps".to_owned(),
            path: PathBuf::from("deps.log"),
            key: vec![PathBuf::from("lock.txt")],
            setup: vec![format!("echo x >> {}/filled; {command}", counts.display())],
        };
        let mut settings = Settings {
            caches: vec![rule],
            setup: vec![format!("echo x >> {}/prepared", counts.display())],
            ..Settings::default()
        };
        settings.sandbox.write.push(counts);
        let workspaces = Workspaces::open_with(&remote.data("data"), settings.clone()).await;
        Self {
            remote,
            settings,
            workspaces: workspaces.unwrap(),
        }
    }

    fn count(&self, what: &str) -> usize {
        let path = self.remote.data("counts").join(what);
        fs::read_to_string(path).unwrap_or_default().lines().count()
    }

    async fn prepare(&self, order: GitOrder, dispatch: &str) -> Workspace {
        let workspace = self.prepares(dispatch, &WorkspaceOrder::Git(order)).await;
        workspace.set_up(&self.settings).await.unwrap();
        workspace
    }

    async fn prepares(&self, dispatch: &str, order: &WorkspaceOrder) -> Workspace {
        let dispatch = self.remote.dispatch(dispatch);
        self.workspaces.prepare(&dispatch, order).await.unwrap()
    }

    async fn attempt(&self, dispatch: &str) -> Workspace {
        self.prepare(self.remote.order(dispatch, dispatch), dispatch)
            .await
    }
}

fn installed(workspace: &Workspace) -> String {
    fs::read_to_string(workspace.path().join("deps.log/installed")).unwrap()
}

#[tokio::test]
async fn a_cache_is_filled_once_for_each_lock_file() {
    let scene = Scene::new().await;
    for number in 0..3 {
        let workspace = scene.attempt(&format!("t-{number}")).await;
        assert_eq!(installed(&workspace), "one\n");
    }
    assert_eq!((scene.count("filled"), scene.count("prepared")), (1, 3));
    scene
        .remote
        .commit(BRANCH, &scene.remote.base, "lock.txt", "two\n");
    for number in 3..5 {
        let workspace = scene.attempt(&format!("t-{number}")).await;
        assert_eq!(installed(&workspace), "two\n");
    }
    assert_eq!((scene.count("filled"), scene.count("prepared")), (2, 5));
    // A gate uses the cache too.
    let workspace = scene.attempt("t-5").await;
    fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    let mut order = integrate_order("t-5", &commit);
    order.gate = vec!["grep two deps.log/installed".to_owned()];
    let ended = scene
        .remote
        .integrate(&scene.workspaces, "t-5", "i-5", &order)
        .await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(scene.count("filled"), 2);
}

#[tokio::test]
async fn an_agents_changes_to_its_copy_stay_in_its_workspace() {
    let scene = Scene::new().await;
    let first = scene.attempt("t-1").await;
    let second = scene.attempt("t-2").await;
    for workspace in [&first, &second] {
        fs::write(workspace.path().join("deps.log/installed"), "poison\n").unwrap();
    }
    assert_eq!(installed(&scene.attempt("t-3").await), "one\n");
}

#[tokio::test]
async fn work_that_has_not_landed_fills_no_cache() {
    let scene = Scene::new().await;
    let workspace = scene.attempt("t-1").await;
    fs::write(workspace.path().join("lock.txt"), "of an agent\n").unwrap();
    let commit = finish(&workspace).await.commit;
    let order = |dispatch: &str| GitOrder {
        start: commit.clone(),
        start_ref: Some(scene.remote.order("t-1", "t-1").attempt_ref),
        ..scene.remote.order("t-1", dispatch)
    };
    for (number, dispatch) in ["second", "third"].into_iter().enumerate() {
        let workspace = scene.prepare(order(dispatch), dispatch).await;
        assert_eq!(installed(&workspace), "of an agent\n");
        assert_eq!(scene.count("filled"), 2 + number);
    }
}

/// A feature may start from another one's branch: agents' key files there apply to that feature alone.
#[tokio::test]
async fn a_base_written_by_agents_fills_no_cache_of_other_features() {
    let scene = Scene::new().await;
    let seed = scene.remote.data("seed");
    git(&seed, &["checkout", "-q", "--detach", &scene.remote.base]);
    fs::write(seed.join("lock.txt"), "of an agent\n").unwrap();
    git(&seed, &["add", "lock.txt"]);
    git(&seed, &["commit", "-q", "-m", "Do it\n\nRalph-Task: t-0"]);
    git(&seed, &["push", "-q", "origin", "HEAD:refs/heads/ralph/other"]);
    let base = git(&seed, &["rev-parse", "HEAD"]);
    for (feature, dispatch, filled) in [("g", "g-1", 1), ("g", "g-2", 1), ("h", "h-1", 2)] {
        let order = GitOrder {
            feature_branch: format!("ralph/{feature}"),
            base: base.clone(),
            ..scene.remote.order("t-1", dispatch)
        };
        let workspace = scene.prepare(order, dispatch).await;
        assert_eq!(installed(&workspace), "of an agent\n");
        assert_eq!(scene.count("filled"), filled, "{dispatch}");
    }
}

#[tokio::test]
async fn a_failed_setup_stores_no_cache() {
    let scene = Scene::filled_by("mkdir deps.log && echo half > deps.log/installed && test -e go").await;
    let order = WorkspaceOrder::Git(scene.remote.order("t-1", "t-1"));
    let workspace = scene.prepares("t-1", &order).await;
    let failed = workspace.set_up(&scene.settings).await.unwrap_err().to_string();
    assert!(failed.contains("setup failed"), "{failed}");
    workspace.remove().await.unwrap();
    let workspace = scene.prepares("t-2", &order).await;
    assert!(!workspace.path().join("deps.log").exists());
    fs::write(workspace.path().join("go"), "").unwrap();
    workspace.set_up(&scene.settings).await.unwrap();
    assert_eq!(scene.count("filled"), 2);
}

/// A checkout may contain links in the cache's place; folders outside are neither stored nor written.
#[tokio::test]
async fn a_link_in_a_caches_place_is_not_followed() {
    let scene = Scene::filled_by("true").await;
    let secret = scene.remote.data("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("installed"), "s3cret\n").unwrap();
    let seed = scene.remote.data("seed");
    git(&seed, &["checkout", "-q", "--detach", &scene.remote.base]);
    std::os::unix::fs::symlink(&secret, seed.join("deps.log")).unwrap();
    git(&seed, &["add", "-f", "deps.log"]);
    git(&seed, &["commit", "-q", "-m", "Look elsewhere"]);
    git(
        &seed,
        &["push", "-q", "origin", &format!("HEAD:refs/heads/{BRANCH}")],
    );
    scene.attempt("t-1").await;
    let is_stored = |folder: &str| scene.remote.data("data/caches").join(folder).exists();
    assert!(!is_stored("."), "no cache was stored");
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 1);
}

#[tokio::test]
async fn parallel_sessions_get_different_ports_and_temporary_folders() {
    let scene = Scene::filled_by("env > env.log").await;
    let mut given = Vec::new();
    let workspaces = [scene.attempt("t-1").await, scene.attempt("t-2").await];
    for workspace in &workspaces {
        let lines = fs::read_to_string(workspace.path().join("env.log")).unwrap_or_default();
        let value = |name: &str| {
            lines
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::to_owned)
        };
        given.push((value("RALPH_PORT_BASE="), value("TMPDIR=")));
        let variables: Vec<_> = workspace.variables().collect();
        assert_eq!(variables[0].0, "RALPH_PORT_BASE");
        assert_eq!(Some(&variables[0].1), given.last().unwrap().0.as_ref());
    }
    assert!(given[0].0 != given[1].0 && given[0].1 != given[1].1, "{given:?}");
}
