//! Git LFS: an agent sees the files, the worker brings and sends them.

use std::fs;
use std::process::Command;

use ralph_shared::wire::{IntegrationEnd, WorkspaceOrder};

use crate::remote::{FEATURE, Remote, finish, git, integrate_order};
use crate::user::User;

/// A repository that keeps `*.bin` in Git LFS, with one such file, made by somebody who has it.
pub fn scene() -> Remote {
    let remote = Remote::new();
    let seed = remote.data("seed");
    git(&seed, &["lfs", "install", "--local"]);
    git(&seed, &["lfs", "track", "*.bin"]);
    fs::write(seed.join("first.bin"), "first\n".repeat(1000)).unwrap();
    git(&seed, &["add", "-A"]);
    git(&seed, &["commit", "-q", "-m", "Keep large files elsewhere"]);
    git(&seed, &["push", "-q", "origin", "HEAD:main"]);
    Remote {
        base: git(&seed, &["rev-parse", "HEAD"]),
        ..remote
    }
}

/// Where it isn't installed only the last test can say anything.
pub fn is_missing() -> bool {
    let found = Command::new("git").args(["lfs", "version"]).output();
    let missing = !found.is_ok_and(|output| output.status.success());
    assert!(
        !missing || std::env::var_os("CI").is_none(),
        "git-lfs has to be installed where everything is tested: run `make setup`"
    );
    missing
}

#[tokio::test]
async fn large_files_are_checked_out_and_those_of_an_agent_get_to_the_server() {
    if is_missing() {
        return;
    }
    let remote = scene();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let first = fs::read_to_string(workspace.path().join("first.bin")).unwrap();
    assert!(first.starts_with("first\nfirst\n"), "{first:.40}");
    fs::write(workspace.path().join("second.bin"), "second\n".repeat(1000)).unwrap();
    let snapshot = finish(&workspace).await;
    assert_eq!(snapshot.files_changed, ["second.bin"]);
    let order = integrate_order("t-1", &snapshot.commit.unwrap());
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    let pointer = remote.git(&["show", &format!("{FEATURE}:second.bin")]);
    assert!(pointer.starts_with("version https://git-lfs"), "{pointer}");
    // Somebody else finds it at the server.
    let seed = remote.data("seed");
    git(&seed, &["fetch", "-q", "origin", FEATURE]);
    git(&seed, &["checkout", "-q", "FETCH_HEAD"]);
    let second = fs::read_to_string(seed.join("second.bin")).unwrap();
    assert!(second.starts_with("second\nsecond\n"), "{second:.40}");
}

#[tokio::test]
async fn a_filter_of_an_agents_is_not_run() {
    if is_missing() {
        return;
    }
    let remote = scene();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let proof = remote.data("ran");
    for key in ["filter.lfs.clean", "filter.lfs.process"] {
        let command = format!("touch {}", proof.display());
        git(workspace.path(), &["config", key, &command]);
    }
    fs::write(workspace.path().join("second.bin"), "second\n").unwrap();
    finish(&workspace).await;
    assert!(!proof.exists());
}

#[tokio::test]
async fn without_git_lfs_a_repository_that_needs_it_is_refused_in_words() {
    let Some(user) =
        User::or_run_as_one("lfs::without_git_lfs_a_repository_that_needs_it_is_refused_in_words")
    else {
        return;
    };
    // As a machine without it looks to git.
    user.write(
        ".gitconfig",
        "[filter \"lfs\"]\n\tprocess = git-lfs-is-gone\n\trequired = true\n\
         [alias]\n\tlfs = !false\n",
    );
    let remote = Remote::new();
    let seed = remote.data("seed");
    fs::write(seed.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
    fs::write(
        seed.join("first.bin"),
        "version https://git-lfs.github.com/spec/v1\n",
    )
    .unwrap();
    git(&seed, &["add", "-A"]);
    git(&seed, &["commit", "-q", "-m", "Keep large files elsewhere"]);
    git(&seed, &["push", "-q", "origin", "HEAD:main"]);
    let remote = Remote {
        base: git(&seed, &["rev-parse", "HEAD"]),
        ..remote
    };
    let workspaces = remote.workspaces().await;
    let order = WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    let refused = workspaces.prepare("t-1", &order).await.unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("keeps files in Git LFS") && said.contains("install git-lfs"),
        "{said}"
    );
}
