//! The worker is killed while it makes parts of a checkout: caches, submodules, large files. Its next process
//! loses nothing and finds nothing half made.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_shared::wire::{IntegrationEnd, WorkspaceOrder};
use ralph_worker::faults::{CACHE_POINTS, LFS_POINTS, SUBMODULE_POINTS};
use ralph_worker::workspace::{CacheRule, CommitMessage, Settings, Workspaces};

use crate::remote::{FEATURE, Remote, git, integrate_order};
use crate::remotes::{lfs, submodules};

/// Settings with a cache of two files, one of them in a subfolder.
fn settings() -> Settings {
    let rule = CacheRule {
        name: "deps".to_owned(),
        path: PathBuf::from("deps.log"),
        key: vec![PathBuf::from("a.txt")],
        setup: vec![
            "mkdir -p deps.log/below && cp a.txt deps.log/one && cp a.txt deps.log/below/two".to_owned(),
        ],
    };
    Settings {
        caches: vec![rule],
        ..Settings::default()
    }
}

async fn open(remote: &Remote) -> Workspaces {
    Workspaces::open_with(&remote.data("data"), settings())
        .await
        .unwrap()
}

/// Makes an attempt with a cache, which adds one file.
async fn attempt(remote: &Remote, workspaces: &Workspaces, task: &str) -> Option<String> {
    let order = WorkspaceOrder::Git(remote.order(task, task));
    let workspace = workspaces.prepare(&remote.dispatch(task), &order).await.unwrap();
    workspace.set_up(&settings()).await.unwrap();
    for file in ["one", "below/two"] {
        let path = workspace.path().join("deps.log").join(file);
        assert_eq!(fs::read_to_string(path).unwrap(), "a\n", "{task}: {file}");
    }
    fs::write(workspace.path().join("new.bin"), "new\n".repeat(100)).unwrap();
    fs::write(remote.data("worked"), "").unwrap();
    let commit = crate::remote::finish(&workspace).await.commit;
    workspace.remove().await.unwrap();
    commit
}

/// Not a test by itself: the tests below run it in a process, which is killed. Its second attempt finds the
/// cache of the first.
#[tokio::test]
async fn process_that_is_killed() {
    let Some(remote) = Remote::of_killer() else {
        return;
    };
    let workspaces = open(&remote).await;
    attempt(&remote, &workspaces, "t-1").await;
    attempt(&remote, &workspaces, "t-2").await;
}

/// Checks that the remote has the work of the killed process's attempts, if there is any, and that another
/// attempt lands.
async fn recovers(remote: &Remote, point: &str) {
    let workspaces = open(remote).await;
    let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
    for (dispatch, snapshot) in &rescued {
        assert_eq!(snapshot.push_error, None, "{point}: {dispatch}");
    }
    if remote.data("worked").exists() {
        let attempt_ref = remote.order("t-1", "t-1").attempt_ref;
        let found = remote.git(&["ls-tree", "--name-only", &attempt_ref, "new.bin"]);
        assert_eq!(found, "new.bin", "{point}: {rescued:?}");
    }
    // Unfinished caches are removed when no workspace is in use.
    assert!(workspaces.unpushed().await.is_empty(), "{point}");
    assert_eq!(
        dots(&remote.data("data/caches")),
        Vec::<PathBuf>::new(),
        "{point}"
    );
    let commit = attempt(remote, &workspaces, "t-3").await.unwrap();
    let order = integrate_order("t-3", &commit);
    let ended = remote.integrate(&workspaces, "t-3", "i-3", &order).await;
    assert!(
        matches!(ended, IntegrationEnd::Merged { empty: false, .. }),
        "{point}: {ended:?}"
    );
    assert_eq!(remote.landings("t-3"), 1, "{point}");
    remote.git(&["fsck", "--strict"]);
    assert_eq!(
        fs::read_dir(remote.data("data/records")).unwrap().count(),
        0,
        "{point}"
    );
}

/// Unfinished caches, which have an extension.
fn dots(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for repository in fs::read_dir(folder).into_iter().flatten().flatten() {
        for whose in fs::read_dir(repository.path()).unwrap().flatten() {
            let caches = fs::read_dir(whose.path()).unwrap().flatten();
            found.extend(
                caches
                    .map(|cache| cache.path())
                    .filter(|path| path.extension().is_some()),
            );
        }
    }
    found
}

#[tokio::test]
async fn caches_are_complete_after_a_kill_at_any_point() {
    for point in CACHE_POINTS {
        let remote = Remote::new();
        remote
            .kill_at("kills_inside::process_that_is_killed", point, &[])
            .await;
        recovers(&remote, point).await;
    }
}

#[tokio::test]
async fn submodules_are_complete_after_a_kill_at_any_point() {
    for point in SUBMODULE_POINTS {
        let (remote, lib, deep) = submodules::scene();
        remote
            .kill_at("kills_inside::process_that_is_killed", point, &[])
            .await;
        recovers(&remote, point).await;
        let workspaces = open(&remote).await;
        let workspace = remote.prepare(&workspaces, "t-4").await;
        let at = |path: &str| git(&workspace.path().join(path), &["rev-parse", "HEAD"]);
        assert_eq!((at("lib"), at("lib/deep")), (lib, deep), "{point}");
        assert_eq!(git(workspace.path(), &["status", "--porcelain"]), "", "{point}");
        for path in ["lib", "lib/deep"] {
            git(&workspace.path().join(path), &["fsck", "--strict"]);
        }
    }
}

#[tokio::test]
async fn large_files_reach_the_server_after_a_kill_at_any_point() {
    if lfs::is_missing() {
        return;
    }
    for point in LFS_POINTS {
        let remote = lfs::scene();
        remote
            .kill_at("kills_inside::process_that_is_killed", point, &[])
            .await;
        recovers(&remote, point).await;
        // Another clone gets the files from the server.
        let seed = remote.data("seed");
        for name in [remote.order("t-1", "t-1").attempt_ref, FEATURE.to_owned()] {
            git(&seed, &["fetch", "-q", "origin", &name]);
            git(&seed, &["checkout", "-q", "FETCH_HEAD"]);
            let found = fs::read_to_string(seed.join("new.bin")).unwrap();
            assert_eq!(found, "new\n".repeat(100), "{point}: {name}");
        }
    }
}
