//! Git LFS: an agent sees the files, and the worker downloads and uploads them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Arc, Mutex};

use ralph_shared::wire::{IntegrationEnd, WorkspaceOrder};
use ralph_worker::workspace::{CommitMessage, Workspace, Workspaces};

use crate::remote::{FEATURE, Remote, finish, git, integrate_order};
use crate::user::User;

/// A repository with `*.bin` in Git LFS, and one such file, made by a person with git-lfs.
pub fn scene() -> Remote {
    let remote = Remote::new();
    let seed = remote.data("seed");
    git(&seed, &["lfs", "install", "--local"]);
    git(&seed, &["lfs", "track", "*.bin"]);
    fs::write(seed.join("first.bin"), "first\n".repeat(1000)).unwrap();
    git(&seed, &["add", "-A"]);
    remote.with_base("Keep large files elsewhere")
}

/// Whether git-lfs is not installed; most tests here need it.
pub fn is_missing() -> bool {
    let found = Command::new("git").args(["lfs", "version"]).output();
    let missing = !found.is_ok_and(|output| output.status.success());
    assert!(
        !missing || std::env::var_os("CI").is_none(),
        "git-lfs must be installed in CI: run `make setup`"
    );
    missing
}

#[tokio::test]
async fn large_files_are_checked_out_and_an_agents_are_uploaded() {
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
    // Another clone gets it from the server.
    let seed = remote.data("seed");
    git(&seed, &["fetch", "-q", "origin", FEATURE]);
    git(&seed, &["checkout", "-q", "FETCH_HEAD"]);
    let second = fs::read_to_string(seed.join("second.bin")).unwrap();
    assert!(second.starts_with("second\nsecond\n"), "{second:.40}");
}

#[tokio::test]
async fn a_filter_that_the_agent_configured_is_not_run() {
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
async fn without_git_lfs_a_repository_that_needs_it_is_refused() {
    let Some(user) =
        User::or_run_as_one("remotes::lfs::without_git_lfs_a_repository_that_needs_it_is_refused")
    else {
        return;
    };
    // Make git behave as on a machine without git-lfs.
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
    let remote = remote.with_base("Keep large files elsewhere");
    let workspaces = remote.workspaces().await;
    let order = WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    let refused = workspaces.prepare("t-1", &order).await.unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("keeps files in Git LFS") && message.contains("install git-lfs"),
        "{message}"
    );
}

/// Installs a filter that makes a pointer of a file's text; it fails while the home contains a file `broken`.
fn fake_filter(user: &User) {
    let clean = format!(
        "#!/bin/sh\ntest -e '{}' && exit 1\nprintf '{}' \"$(cat)\"\n",
        user.home().join("broken").display(),
        pointer("%s").escape_default()
    );
    let clean = user.write("clean", &clean);
    let smudge = user.write("smudge", "#!/bin/sh\nsed -n 's/oid sha256://p'\n");
    for program in [&clean, &smudge] {
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let config = format!(
        "[filter \"lfs\"]\n\tclean = {}\n\tsmudge = {}\n\trequired = true\n\
         [filter \"other\"]\n\tclean = false\n\trequired = true\n",
        clean.display(),
        smudge.display()
    );
    user.write(".gitconfig", &config);
}

fn pointer(text: &str) -> String {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{text}\nsize 6\n")
}

/// A repository with large files. A session rewrites one, changes one, and adds a file with an attribute for
/// it.
async fn odd_work(workspaces: &Workspaces, remote: Remote, rule: &str) -> (Remote, Workspace) {
    let seed = remote.data("seed");
    fs::write(seed.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
    for name in ["first", "second"] {
        fs::write(seed.join(format!("{name}.bin")), pointer(name)).unwrap();
    }
    git(&seed, &["add", "-A"]);
    let remote = remote.with_base("Keep large files elsewhere");
    let workspace = remote.prepare(workspaces, "t-1").await;
    let tree = workspace.path();
    assert_eq!(fs::read_to_string(tree.join("first.bin")).unwrap(), "first\n");
    fs::write(tree.join("first.bin"), "first\n").unwrap();
    fs::write(tree.join("second.bin"), "changed\n").unwrap();
    fs::write(
        tree.join(".gitattributes"),
        format!("*.bin filter=lfs\nodd.dat {rule}\na.txt {rule}\n"),
    )
    .unwrap();
    fs::write(tree.join("odd.dat"), b"\xff\xfe\x00\xd8x").unwrap();
    (remote, workspace)
}

#[tokio::test]
async fn inapplicable_attributes_put_no_large_file_into_the_history() {
    let test = "remotes::lfs::inapplicable_attributes_put_no_large_file_into_the_history";
    let Some(user) = User::or_run_as_one(test) else {
        return;
    };
    fake_filter(&user);
    let rule = "working-tree-encoding=UTF-16";
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let (remote, workspace) = odd_work(&workspaces, remote, rule).await;
    let snapshot = finish(&workspace).await;
    assert_eq!(
        snapshot.files_changed,
        [".gitattributes", "odd.dat", "second.bin"],
        "{rule}"
    );
    let commit = snapshot.commit.unwrap();
    let second = remote.git(&["show", &format!("{commit}:second.bin")]);
    assert_eq!(second, pointer("changed").trim_end(), "{rule}");
    // A second finish makes the same commit.
    assert_eq!(finish(&workspace).await.commit, Some(commit), "{rule}");
}

#[tokio::test]
async fn large_files_wait_for_their_failing_filter() {
    let test = "remotes::lfs::large_files_wait_for_their_failing_filter";
    let Some(user) = User::or_run_as_one(test) else {
        return;
    };
    fake_filter(&user);
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let (remote, workspace) = odd_work(&workspaces, remote, "text").await;
    let broken = user.write("broken", "");
    let snapshot = workspace.finish(&CommitMessage::default()).await;
    let error = snapshot.push_error.unwrap_or_default();
    assert!(error.contains("clean filter 'lfs' failed"), "{error}");
    assert_eq!(remote.head(&remote.order("t-1", "t-1").attempt_ref), None);
    fs::remove_file(broken).unwrap();
    let snapshot = finish(&workspace).await;
    assert_eq!(
        snapshot.files_changed,
        [".gitattributes", "odd.dat", "second.bin"]
    );
    let second = remote.git(&["show", &format!("{}:second.bin", snapshot.commit.unwrap())]);
    assert_eq!(second, pointer("changed").trim_end());
}

/// A server that asks every client for a login and records the requests; returns its address and the
/// requests.
fn listen() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> = lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let known = head
                .iter()
                .any(|line| line.to_lowercase().starts_with("authorization:"));
            heard.lock().unwrap().push(head.join("\n"));
            let answer = match known {
                true => "HTTP/1.1 410 Gone\r\n",
                false => "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n",
            };
            let _ = write!(stream, "{answer}Content-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (address, requests)
}

/// git-lfs asks the user's credential helper for a login at any server.
#[tokio::test]
async fn an_agent_cannot_send_the_users_credentials_to_its_own_server() {
    let test = "remotes::lfs::an_agent_cannot_send_the_users_credentials_to_its_own_server";
    let Some(user) = User::or_run_as_one(test) else {
        return;
    };
    if is_missing() {
        return;
    }
    let helper = user.write("helper", "#!/bin/sh\necho username=ann\necho password=s3cret\n");
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    user.write(
        ".gitconfig",
        &format!("[credential]\n\thelper = {}\n", helper.display()),
    );
    let (theirs, requests) = listen();
    let remote = scene();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let config = format!(
        "[lfs]\n\turl = {theirs}/lfs\n\tpushurl = {theirs}/push\n\tallowincompletepush = true\n\
         \tfetchexclude = *\n[remote \"origin\"]\n\tlfsurl = {theirs}/origin\n"
    );
    fs::write(workspace.path().join(".lfsconfig"), config).unwrap();
    fs::write(workspace.path().join("second.bin"), "second\n".repeat(1000)).unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    workspace.remove().await.unwrap();
    // Another worker, which has none of the objects yet, checks it out.
    let other = Workspaces::open(&remote.data("other")).await.unwrap();
    let order = ralph_shared::wire::GitOrder {
        start: Some(commit.clone()),
        start_ref: Some(remote.order("t-1", "t-1").attempt_ref),
        ..remote.order("t-1", "t-2")
    };
    let again = other.prepare("t-2", &WorkspaceOrder::Git(order)).await.unwrap();
    let second = fs::read_to_string(again.path().join("second.bin")).unwrap();
    assert!(second.starts_with("second\n"), "{second:.40}");
    let order = ralph_shared::wire::IntegrateOrder {
        gate: vec!["grep -q second second.bin".to_owned()],
        ..integrate_order("t-1", &commit)
    };
    let third = Workspaces::open(&remote.data("third")).await.unwrap();
    let ended = remote.integrate(&third, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    let requests = requests.lock().unwrap();
    assert!(requests.is_empty(), "{requests:?}");
}

/// The configuration that a person committed to the feature's base applies.
#[tokio::test]
async fn large_files_go_to_the_server_that_the_base_names() {
    if is_missing() {
        return;
    }
    let remote = scene();
    let elsewhere = remote.data("elsewhere.git");
    git(remote.dir.path(), &["init", "-q", "--bare", "elsewhere.git"]);
    let seed = remote.data("seed");
    let config = format!("[lfs]\n\tpushurl = file://{}\n", elsewhere.display());
    fs::write(seed.join(".lfsconfig"), config).unwrap();
    git(&seed, &["add", "-A"]);
    let remote = remote.with_base("Keep large files there");
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    fs::write(workspace.path().join("second.bin"), "second\n".repeat(1000)).unwrap();
    finish(&workspace).await;
    assert!(elsewhere.join("lfs/objects").is_dir());
}
