//! Preparation of workspaces: start commits, shared mirrors, and refusals.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use ralph_shared::wire::{GitOrder, WorkspaceOrder};
use ralph_worker::workspace::{WorkspaceError, Workspaces};

use crate::remote::{BRANCH, FEATURE, Remote, finish, git};

#[tokio::test]
async fn a_clone_starts_at_the_base_and_then_at_the_feature_branch() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let first = remote.prepare(&workspaces, "t-1").await;
    assert_eq!(first.start(), Some(remote.base.as_str()));
    assert_eq!(fs::read_to_string(first.path().join("a.txt")).unwrap(), "a\n");
    let head = remote.commit(BRANCH, &remote.base, "b.txt", "b\n");
    let second = remote.prepare(&workspaces, "t-2").await;
    assert_eq!(second.start(), Some(head.as_str()));
    assert!(second.path().join("b.txt").exists());
    assert!(!first.path().join("b.txt").exists());
}

#[tokio::test]
async fn an_agent_finds_a_clean_clone_with_its_branch_and_history() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    assert_eq!(git(workspace.path(), &["status", "--porcelain"]), "");
    assert_eq!(git(workspace.path(), &["branch", "--show-current"]), BRANCH);
    assert_eq!(git(workspace.path(), &["log", "--format=%s"]), "Begin");
    assert_eq!(
        git(workspace.path(), &["config", "user.email"]),
        "ann@example.org"
    );
    assert_eq!(git(workspace.path(), &["fsck"]), "");
}

#[tokio::test]
async fn the_next_attempt_starts_from_the_last_ones_commit() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let elsewhere = Workspaces::open(&remote.data("other")).await.unwrap();
    let order = GitOrder {
        start: Some(commit.clone()),
        start_ref: Some(remote.order("t-1", "t-1").attempt_ref),
        ..remote.order("t-1", "second")
    };
    let next = elsewhere
        .prepare("second", &WorkspaceOrder::Git(order))
        .await
        .unwrap();
    assert_eq!(next.start(), Some(commit.as_str()));
    assert_eq!(fs::read_to_string(next.path().join("new.txt")).unwrap(), "new\n");
}

#[tokio::test]
async fn a_pruned_attempt_is_replaced_by_the_base() {
    let remote = Remote::new();
    let order = GitOrder {
        start: Some("1".repeat(40)),
        start_ref: Some("refs/ralph/attempts/demo/gone".to_owned()),
        ..remote.order("t-1", "t-1")
    };
    let workspaces = remote.workspaces().await;
    let workspace = workspaces
        .prepare("t-1", &WorkspaceOrder::Git(order))
        .await
        .unwrap();
    assert_eq!(workspace.start(), Some(remote.base.as_str()));
}

#[tokio::test]
async fn concurrent_preparations_share_one_data_folder() {
    let remote = Remote::new();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (data, order) = (remote.data("data"), remote.order("t", &number.to_string()));
        tasks.spawn(async move {
            let workspaces = Workspaces::open(&data).await.unwrap();
            workspaces
                .prepare(&number.to_string(), &WorkspaceOrder::Git(order))
                .await
                .unwrap()
        });
    }
    for workspace in tasks.join_all().await {
        assert!(workspace.path().join("a.txt").exists());
    }
    assert_eq!(
        fs::read_dir(remote.data("data/mirrors")).unwrap().count(),
        2,
        "one mirror and its lock"
    );
}

#[tokio::test]
async fn a_broken_mirror_is_rebuilt_and_keeps_lent_objects() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let before = remote.prepare(&workspaces, "t-0").await;
    let mirror = fs::read_dir(remote.data("data/mirrors")).unwrap().flatten();
    let mirror = mirror
        .map(|entry| entry.path())
        .find(|path| path.is_dir())
        .unwrap();
    let empty_objects = || {
        for folder in fs::read_dir(mirror.join("objects")).unwrap().flatten() {
            for object in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                fs::remove_file(object.path()).unwrap();
                fs::write(object.path(), "").unwrap();
            }
        }
    };
    type Damage<'a> = (&'a str, &'a dyn Fn());
    let damages: &[Damage] = &[
        ("objects", &empty_objects),
        ("head", &|| fs::write(mirror.join("HEAD"), "nonsense").unwrap()),
        ("config", &|| {
            fs::write(mirror.join("config"), "[nonsense").unwrap()
        }),
        ("lock", &|| fs::write(mirror.join("config.lock"), "").unwrap()),
        ("refs", &|| {
            fs::create_dir_all(mirror.join("refs/heads/ralph")).unwrap();
            fs::write(mirror.join(FEATURE), "nonsense").unwrap();
            fs::write(mirror.join("refs/heads/ralph/demo.lock"), "").unwrap();
        }),
        // A process died between two steps of the rebuild.
        ("half-replaced", &|| {
            let (new, old) = (mirror.with_extension("new"), mirror.with_extension("broken-9"));
            let copied = Command::new("cp").arg("-R").args([&mirror, &new]).status();
            assert!(copied.unwrap().success());
            let lender = format!("{}\n", old.join("objects").display());
            fs::write(new.join("objects/info/alternates"), lender).unwrap();
            fs::rename(&mirror, &old).unwrap();
        }),
        ("gone", &|| fs::remove_dir_all(&mirror).unwrap()),
    ];
    remote.commit(BRANCH, &remote.base, "b.txt", "b\n");
    for (name, damage) in damages {
        damage();
        let workspace = remote.prepare(&workspaces, name).await;
        assert!(workspace.path().join("b.txt").exists(), "{name}");
        assert_eq!(
            git(
                workspace.path(),
                &["fsck", "--no-dangling", "--connectivity-only"]
            ),
            "",
            "{name}"
        );
        assert!(!mirror.with_extension("new").exists(), "{name}");
    }
    assert_eq!(
        git(before.path(), &["fsck", "--no-dangling", "--connectivity-only"]),
        ""
    );
    fs::write(before.path().join("c.txt"), "c\n").unwrap();
    finish(&before).await;
}

#[tokio::test]
async fn an_error_names_a_missing_commit_or_repository() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let prepare = async |order: GitOrder| {
        let dispatch = order.attempt_ref.rsplit('-').next().unwrap().to_owned();
        workspaces
            .prepare(&dispatch, &WorkspaceOrder::Git(order))
            .await
            .unwrap_err()
    };
    let missing = prepare(GitOrder {
        base: "1".repeat(40),
        ..remote.order("t", "missing")
    })
    .await;
    assert!(
        matches!(missing, WorkspaceError::CommitMissing { .. }),
        "{missing}"
    );
    assert!(!missing.retry_can_help());

    git(remote.dir.path(), &["init", "-q", "--bare", "empty.git"]);
    let mut order = remote.order("t", "empty");
    order.repository.address = remote.data("empty.git").to_str().unwrap().to_owned();
    let empty = prepare(order.clone()).await;
    assert!(matches!(empty, WorkspaceError::EmptyRepository { .. }), "{empty}");

    order.repository.address = remote.data("nowhere").to_str().unwrap().to_owned();
    let nowhere = prepare(order.clone()).await.to_string();
    assert!(
        nowhere.contains("there is no such repository") && nowhere.contains("check the address"),
        "{nowhere}"
    );

    order.repository.address = "http://127.0.0.1:9/x".to_owned();
    let unreachable = prepare(order).await;
    assert!(unreachable.retry_can_help(), "{unreachable}");
    assert!(
        unreachable.to_string().contains("could not be reached"),
        "{unreachable}"
    );

    let wrong = prepare(GitOrder {
        attempt_ref: "refs/heads/a:b-x".to_owned(),
        ..remote.order("t", "t")
    })
    .await;
    assert!(matches!(wrong, WorkspaceError::Order(_)), "{wrong}");
}

/// A server that gives every request the same answer and hangs up; returns its address.
fn server_that_answers(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://me:s3cret@{}/repo.git", listener.local_addr().unwrap());
    // The thread ends with the test's process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer);
        }
    });
    address
}

#[tokio::test]
async fn a_servers_refusal_has_advice_and_no_password() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    type Row = (&'static [u8], &'static str, bool);
    let rows: [Row; 5] = [
        (
            b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n",
            "authentication failed",
            false,
        ),
        (
            b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
            "authentication failed",
            false,
        ),
        (
            b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
            "there is no such repository",
            false,
        ),
        (
            b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
            "could not be reached",
            true,
        ),
        (b"", "could not be reached", true),
    ];
    for (number, (answer, words, retry)) in rows.into_iter().enumerate() {
        let mut order = remote.order("t", "t");
        order.repository.address = server_that_answers(answer);
        let dispatch = number.to_string();
        let error = workspaces
            .prepare(&dispatch, &WorkspaceOrder::Git(order))
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("to do: "), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
        assert_eq!(error.retry_can_help(), retry, "{text}");
    }
}

#[tokio::test]
async fn a_failed_or_abandoned_preparation_leaves_nothing() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let order = WorkspaceOrder::Git(GitOrder {
        base: "1".repeat(40),
        ..remote.order("t", "fails")
    });
    workspaces.prepare("fails", &order).await.unwrap_err();
    let order = WorkspaceOrder::Git(remote.order("t", "given-up"));
    let mut given_up = Box::pin(workspaces.prepare("given-up", &order));
    assert!(futures::poll!(&mut given_up).is_pending());
    drop(given_up);
    // The folder is removed before its lock is released.
    for dispatch in ["fails", "given-up"] {
        let path = remote.data("data/records").join(dispatch).join("lock");
        let Ok(lock) = fs::File::open(&path) else { continue };
        tokio::task::spawn_blocking(move || lock.lock())
            .await
            .unwrap()
            .unwrap();
        assert!(!path.exists(), "{dispatch}");
    }
    assert_eq!(fs::read_dir(remote.data("data/workspaces")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_scratch_workspace_is_an_empty_folder() {
    let remote = Remote::new();
    let workspace = remote
        .workspaces()
        .await
        .prepare("d-1", &WorkspaceOrder::Scratch)
        .await
        .unwrap();
    assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 0);
    assert!(workspace.home().is_dir() && workspace.tmp().is_dir());
    let snapshot = finish(&workspace).await;
    assert_eq!((snapshot.commit, snapshot.start), (None, None));
    let path = workspace.path().to_owned();
    workspace.remove().await.unwrap();
    assert!(!path.exists());
}
