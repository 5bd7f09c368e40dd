//! Submodules: their origins, and changes that an agent may leave in them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ralph_shared::wire::IntegrationEnd;
use ralph_worker::workspace::{CommitMessage, Settings, Workspaces};

use crate::remote::{FEATURE, Remote, finish, git, integrate_order};

/// Makes the bare repository `name.git` beside the others, with one file; returns its commit.
fn library(dir: &Path, name: &str, links: &[(&str, &str, &str)]) -> String {
    let seed = dir.join(format!("{name}-seed"));
    git(dir, &["init", "-q", "-b", "main", seed.to_str().unwrap()]);
    fs::write(seed.join("lib.txt"), format!("{name}\n")).unwrap();
    fs::write(seed.join(".gitignore"), "*.o\n").unwrap();
    link(&seed, links);
    git(&seed, &["add", ".gitignore", "lib.txt"]);
    git(&seed, &["commit", "-q", "-m", "Begin"]);
    git(
        dir,
        &[
            "clone",
            "-q",
            "--bare",
            seed.to_str().unwrap(),
            &format!("{name}.git"),
        ],
    );
    git(&seed, &["rev-parse", "HEAD"])
}

/// Adds submodules, each with path, address and commit.
fn link(seed: &Path, links: &[(&str, &str, &str)]) {
    for (path, url, commit) in links {
        let entry = format!("160000,{commit},{path}");
        git(seed, &["update-index", "--add", "--cacheinfo", &entry]);
        git(
            seed,
            &[
                "config",
                "-f",
                ".gitmodules",
                &format!("submodule.{path}.path"),
                path,
            ],
        );
        git(
            seed,
            &[
                "config",
                "-f",
                ".gitmodules",
                &format!("submodule.{path}.url"),
                url,
            ],
        );
        git(seed, &["add", ".gitmodules"]);
    }
}

/// A repository with the submodule `lib` (relative address), which has the submodule `lib/deep`.
pub fn scene() -> (Remote, String, String) {
    let remote = Remote::new();
    let dir = remote.dir.path();
    let deep = library(dir, "deep", &[]);
    let lib = library(dir, "lib", &[("deep", "../deep.git", &deep)]);
    let seed = dir.join("seed");
    link(&seed, &[("lib", "../lib.git", &lib)]);
    (remote.with_base("Add a library"), lib, deep)
}

#[tokio::test]
async fn submodules_are_checked_out_for_agents_and_gates() {
    let (remote, lib, deep) = scene();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let at = |path: &str| git(&workspace.path().join(path), &["rev-parse", "HEAD"]);
    assert_eq!((at("lib"), at("lib/deep")), (lib, deep));
    assert_eq!(
        fs::read_to_string(workspace.path().join("lib/deep/lib.txt")).unwrap(),
        "deep\n"
    );
    assert_eq!(git(workspace.path(), &["status", "--porcelain"]), "");
    assert_eq!(workspace.borrowed_objects().len(), 3);
    fs::write(workspace.path().join("lib/made.o"), "").unwrap();
    fs::write(workspace.path().join("a.txt"), "work\n").unwrap();
    let snapshot = finish(&workspace).await;
    assert_eq!(snapshot.files_changed, ["a.txt"]);
    let mut order = integrate_order("t-1", &snapshot.commit.unwrap());
    order.gate = vec!["grep deep lib/deep/lib.txt && git -C lib log -1".to_owned()];
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
}

/// Commits in the clone of a submodule, as an agent would; returns the commit.
fn commit_in(folder: &Path) -> String {
    fs::write(folder.join("lib.txt"), "changed\n").unwrap();
    git(folder, &["commit", "-q", "-a", "-m", "Change the library"]);
    git(folder, &["rev-parse", "HEAD"])
}

#[tokio::test]
async fn a_commit_that_the_submodules_remote_has_is_recorded_and_lands() {
    let (remote, _, _) = scene();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let commit = commit_in(&workspace.path().join("lib"));
    git(
        &workspace.path().join("lib"),
        &[
            "push",
            "-q",
            remote.data("lib.git").to_str().unwrap(),
            "HEAD:refs/heads/next",
        ],
    );
    let snapshot = finish(&workspace).await;
    assert_eq!(snapshot.files_changed, ["lib"]);
    let order = integrate_order("t-1", &snapshot.commit.unwrap());
    remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    let listed = remote.git(&["ls-tree", FEATURE, "lib"]);
    assert_eq!(listed, format!("160000 commit {commit}\tlib"));
}

#[tokio::test]
async fn a_commit_missing_at_the_submodules_remote_is_reported_and_kept() {
    let (remote, _, _) = scene();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let folder = workspace.path().join("lib");
    fs::write(workspace.path().join("a.txt"), "work\n").unwrap();
    let commit = commit_in(&folder);
    git(
        remote.dir.path(),
        &["clone", "-q", folder.to_str().unwrap(), "saved"],
    );
    for _ in 0..2 {
        let error = workspace
            .finish(&CommitMessage::default())
            .await
            .push_error
            .unwrap();
        let expected = format!("the submodule lib was left at {commit}, which is not at");
        assert!(
            error.contains(&expected) && error.contains("push the commit there"),
            "{error}"
        );
    }
    drop(workspace);
    git(
        &remote.data("saved"),
        &[
            "push",
            "-q",
            remote.data("lib.git").to_str().unwrap(),
            "HEAD:refs/heads/next",
        ],
    );
    let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
    assert_eq!(rescued[0].1.push_error, None);
    assert_eq!(rescued[0].1.files_changed, ["a.txt", "lib"]);
}

#[tokio::test]
async fn uncommitted_changes_of_a_submodule_are_reported() {
    let (remote, _, _) = scene();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    fs::write(workspace.path().join("lib/deep/new.txt"), "new\n").unwrap();
    let error = workspace
        .finish(&CommitMessage::default())
        .await
        .push_error
        .unwrap();
    assert!(
        error.contains("lib/deep was left with changes that are in no commit"),
        "{error}"
    );
}

/// Git runs itself inside submodules, with their configuration.
#[tokio::test]
async fn nothing_that_the_agent_configured_in_a_submodule_is_run() {
    let (remote, _, _) = scene();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let proof = remote.data("ran");
    let evil = remote.data("evil");
    fs::write(&evil, format!("#!/bin/sh\ntouch {}\n", proof.display())).unwrap();
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
    for path in ["lib", "lib/deep"] {
        let folder = workspace.path().join(path);
        git(&folder, &["config", "core.fsmonitor", evil.to_str().unwrap()]);
        git(&folder, &["config", "filter.x.clean", evil.to_str().unwrap()]);
    }
    git(&workspace.path().join("lib"), &["status"]);
    assert!(
        fs::remove_file(&proof).is_ok(),
        "git runs it when it is used in the submodule"
    );
    // Check it as a verifier's workspace, with a filter for every file of the submodule.
    let info = workspace.path().join("lib/.git/info");
    fs::create_dir_all(&info).unwrap();
    fs::write(info.join("attributes"), "* filter=x\n").unwrap();
    let file = workspace.path().join("lib/lib.txt");
    let before = fs::read(&file).unwrap();
    fs::write(&file, "other\n").unwrap();
    assert_eq!(
        workspace.changed_tracked_files().await.unwrap(),
        Vec::<String>::new()
    );
    assert!(!proof.exists());
    fs::write(&file, before).unwrap();
    fs::remove_file(info.join("attributes")).unwrap();
    finish(&workspace).await;
    finish(&workspace).await;
    assert!(!proof.exists());
}

/// The worker's credentials could fetch repositories that an agent must not read.
#[tokio::test]
async fn an_address_that_only_an_agent_named_is_not_fetched() {
    let (remote, _, _) = scene();
    let secret = library(remote.dir.path(), "secret", &[]);
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let config = "[submodule \"lib\"]\n\tpath = lib\n\turl = ../secret.git\n";
    fs::write(workspace.path().join(".gitmodules"), config).unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    // The other repository's commit, recorded by hand.
    let seed = remote.data("seed");
    git(&seed, &["fetch", "-q", "origin", &commit]);
    git(&seed, &["checkout", "-q", &commit]);
    git(
        &seed,
        &["update-index", "--cacheinfo", &format!("160000,{secret},lib")],
    );
    git(&seed, &["commit", "-q", "-m", "Look elsewhere"]);
    git(&seed, &["push", "-q", "origin", "HEAD:refs/heads/ralph/demo"]);
    let next = remote.prepare(&workspaces, "t-2").await;
    assert_eq!(fs::read_dir(next.path().join("lib")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_link_in_a_submodules_place_is_not_followed() {
    let (remote, _, _) = scene();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let elsewhere: PathBuf = remote.data("users");
    git(remote.dir.path(), &["clone", "-q", "lib.git", "users"]);
    fs::remove_dir_all(workspace.path().join("lib")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, workspace.path().join("lib")).unwrap();
    let snapshot = finish(&workspace).await;
    assert!(elsewhere.join(".git").is_dir());
    let listed = remote.git(&["ls-tree", &snapshot.commit.unwrap(), "lib"]);
    assert!(listed.starts_with("120000 blob"), "{listed}");
}

#[tokio::test]
async fn a_missing_submodule_commit_is_reported_with_its_address() {
    let (remote, _, _) = scene();
    let seed = remote.data("seed");
    let nowhere = "1".repeat(40);
    git(
        &seed,
        &["update-index", "--cacheinfo", &format!("160000,{nowhere},lib")],
    );
    let remote = remote.with_base("Break it");
    let workspaces = Workspaces::open_with(&remote.data("data"), Settings::default())
        .await
        .unwrap();
    let order = ralph_shared::wire::WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    let error = workspaces.prepare("t-1", &order).await.unwrap_err().to_string();
    assert!(
        error.contains("lib.git has no commit 1111") && error.contains("for a submodule"),
        "{error}"
    );
}
