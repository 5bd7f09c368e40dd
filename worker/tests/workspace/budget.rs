//! Removal of caches, mirrors and workspaces under a disk budget, and full disks.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use ralph_shared::wire::WorkspaceOrder;
use ralph_worker::workspace::{CacheRule, CommitMessage, Settings, WorkspaceError, Workspaces};

use crate::remote::{Dir, Remote, finish};

const MIB: u64 = 1 << 20;

fn noise(mib: u64) -> Vec<u8> {
    // Incompressible bytes.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..mib * MIB / 8).flat_map(|_| next()).collect()
}

async fn with_budget(remote: &Remote, mib: u64) -> Workspaces {
    let settings = Settings {
        disk_budget_bytes: Some(mib * MIB),
        ..Settings::default()
    };
    Workspaces::open_with(&remote.data("data"), settings)
        .await
        .unwrap()
}

#[tokio::test]
async fn only_pushed_work_is_removed_under_a_disk_budget() {
    let remote = Remote::new();
    let workspaces = with_budget(&remote, 4).await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    fs::write(workspace.path().join("large.bin"), noise(5)).unwrap();
    let tree = workspace.path().to_owned();
    remote.hook("pre-receive", "exit 1");
    assert!(
        workspace
            .finish(&CommitMessage::default())
            .await
            .push_error
            .is_some()
    );
    drop(workspace);

    let order = WorkspaceOrder::Git(remote.order("t-2", "t-2"));
    let refused = workspaces.prepare("t-2", &order).await.unwrap_err();
    assert!(matches!(refused, WorkspaceError::OverBudget { .. }), "{refused}");
    assert!(refused.to_string().contains("raise `disk_budget_mb`") && refused.retry_can_help());
    assert!(tree.join("large.bin").exists());

    remote.hook("pre-receive", "exit 0");
    let mut unpushed = workspaces.unpushed().await;
    finish(&unpushed[0]).await;
    // The work is pushed, but its workspace is still in use.
    assert!(workspaces.prepare("t-2", &order).await.is_err());
    unpushed.clear();
    workspaces.prepare("t-2", &order).await.unwrap();
    assert!(!tree.exists());
}

#[tokio::test]
async fn the_least_recently_used_caches_are_removed_first() {
    let remote = Remote::new();
    let rule = |name: &str| CacheRule {
        name: name.to_owned(),
        path: PathBuf::from(format!("{name}.log")),
        key: vec![PathBuf::from("a.txt")],
        setup: vec![format!(
            "mkdir {name}.log && head -c 2M /dev/urandom > {name}.log/data"
        )],
    };
    let settings = Settings {
        caches: ["old", "young"].map(rule).into(),
        ..Settings::default()
    };
    let unbounded = Workspaces::open_with(&remote.data("data"), settings.clone())
        .await
        .unwrap();
    let workspace = remote.prepare(&unbounded, "t-1").await;
    workspace.set_up(&settings).await.unwrap();
    workspace.remove().await.unwrap();
    let caches = || {
        let repository = fs::read_dir(remote.data("data/caches"))
            .unwrap()
            .flatten()
            .next()
            .unwrap();
        let entries = fs::read_dir(repository.path().join("base")).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.path()).collect();
        names.sort();
        names
    };
    let long_ago = SystemTime::now() - Duration::from_secs(7_200);
    File::open(&caches()[0]).unwrap().set_modified(long_ago).unwrap();
    let young = caches()[1].clone();
    with_budget(&remote, 3)
        .await
        .prepare("t-2", &WorkspaceOrder::Scratch)
        .await
        .unwrap();
    assert_eq!(caches(), [young]);
}

#[tokio::test]
async fn an_unused_mirror_is_removed_and_fetched_again() {
    let remote = Remote::new();
    let unbounded = remote.workspaces().await;
    let workspace = remote.prepare(&unbounded, "t-1").await;
    let mirrors = || {
        fs::read_dir(remote.data("data/mirrors"))
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
    };
    let mirror = mirrors().find(|path| path.is_dir()).unwrap();
    fs::write(mirror.join("ballast"), noise(2)).unwrap();
    let lock = File::options()
        .write(true)
        .open(mirror.with_extension("lock"))
        .unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(7_200);
    lock.set_modified(long_ago).unwrap();
    let bounded = with_budget(&remote, 1).await;
    assert!(bounded.prepare("t-2", &WorkspaceOrder::Scratch).await.is_err());
    assert!(mirror.exists(), "a workspace borrows from the mirror");
    workspace.remove().await.unwrap();
    bounded.prepare("t-2", &WorkspaceOrder::Scratch).await.unwrap();
    assert!(!mirror.exists());
    assert!(
        remote
            .prepare(&bounded, "t-3")
            .await
            .path()
            .join("a.txt")
            .exists()
    );
}

/// In a process: the path of its data folder, which is on a small disk.
const SMALL_DISK: &str = "RALPH_TEST_SMALL_DISK";

#[tokio::test]
async fn a_full_disk_is_reported_and_loses_nothing() {
    let Some(dir) = std::env::var_os(SMALL_DISK).map(PathBuf::from) else {
        return on_a_small_disk("budget::a_full_disk_is_reported_and_loses_nothing");
    };
    let remote = Remote::at(&dir);
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    fs::write(workspace.path().join("large.bin"), noise(5)).unwrap();
    fs::write(workspace.path().join("small.txt"), "small\n").unwrap();
    let filler = remote.data("data/filler");
    let fill = |free_bytes: usize| {
        let mut filler = File::create(&filler).unwrap();
        let _ = std::io::copy(&mut std::io::Read::take(std::io::repeat(1), 1 << 30), &mut filler);
        let full = filler.metadata().unwrap().len();
        filler.set_len(full.saturating_sub(free_bytes as u64)).unwrap();
    };
    // There is space for the small file, but not for the large one.
    fill(1 << 20);
    let snapshot = workspace.finish(&CommitMessage::default()).await;
    let error = snapshot.push_error.unwrap();
    assert!(
        error.contains("no space or quota left") && error.contains("free space"),
        "{error}"
    );
    assert_eq!(remote.head(&remote.order("t-1", "t-1").attempt_ref), None);
    drop(workspace);

    fill(0);
    let order = WorkspaceOrder::Git(remote.order("t-2", "t-2"));
    let refused = workspaces.prepare("t-2", &order).await.unwrap_err();
    assert!(
        refused.to_string().to_lowercase().contains("no space"),
        "{refused}"
    );
    assert!(refused.retry_can_help(), "{refused}");

    fs::remove_file(&filler).unwrap();
    let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
    assert_eq!(rescued.len(), 1);
    assert_eq!(
        rescued[0].1.files_changed,
        ["large.bin", "small.txt"],
        "{rescued:?}"
    );
    let commit = rescued[0].1.commit.clone().unwrap();
    assert_eq!(
        remote.git(&["cat-file", "-s", &format!("{commit}:large.bin")]),
        (5 * MIB).to_string()
    );
    assert!(workspaces.prepare("t-2", &order).await.is_ok());
}

/// Runs the test again with its data folder on its own file system of 16 MiB.
fn on_a_small_disk(test: &str) {
    let remote = Remote::new();
    let data = remote.data("data");
    fs::create_dir(&data).unwrap();
    let small = |program: &Path, arguments: &[&str]| {
        Command::new("bwrap")
            .args(["--dev-bind", "/", "/", "--size", "16777216", "--tmpfs"])
            .arg(&data)
            .arg(program)
            .args(arguments)
            .env(SMALL_DISK, remote.dir.path())
            .output()
    };
    if !small(Path::new("true"), &[]).is_ok_and(|output| output.status.success()) {
        eprintln!("bubblewrap can't make a small disk here");
        return;
    }
    let output = small(
        &std::env::current_exe().unwrap(),
        &["--exact", test, "--nocapture"],
    )
    .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    assert!(matches!(remote.dir, Dir::Own(_)));
}
