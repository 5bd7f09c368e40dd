//! All files that an agent leaves are committed and pushed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_shared::wire::WorkspaceOrder;
use ralph_worker::workspace::{CommitMessage, Settings, Workspaces};

use crate::remote::{Remote, finish, git};
use crate::user::User;

/// Runs `mess` in a new workspace beside `work.txt`, and checks the pushed commit. Returns its files,
/// separated by spaces.
async fn pushed_after(mess: impl Fn(&Path)) -> String {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    fs::write(workspace.path().join("work.txt"), "work\n").unwrap();
    mess(workspace.path());
    let snapshot = finish(&workspace).await;
    let attempt_ref = remote.order("t-1", "t-1").attempt_ref;
    assert_eq!(remote.head(&attempt_ref), snapshot.commit);
    assert_eq!(
        remote.git(&["rev-parse", &format!("{attempt_ref}^")]),
        remote.base,
        "one commit on the start"
    );
    remote.git(&["fsck", "--strict"]);
    assert_eq!(remote.git(&["show", &format!("{attempt_ref}:work.txt")]), "work");
    remote
        .git(&["ls-tree", "-r", "--name-only", &attempt_ref])
        .replace('\n', " ")
}

const SEED: &str = ".gitignore a.txt shared.txt work.txt";

#[tokio::test]
async fn changes_are_one_commit_with_author_and_trailers() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    fs::write(workspace.path().join("a.txt"), "changed\n").unwrap();
    fs::create_dir(workspace.path().join("new")).unwrap();
    fs::write(workspace.path().join("new/x y.txt"), "x\n").unwrap();
    fs::write(workspace.path().join("ignored.log"), "x\n").unwrap();
    fs::create_dir_all(workspace.path().join(".ralph/context")).unwrap();
    fs::write(workspace.path().join(".ralph/context/spec.md"), "x\n").unwrap();
    fs::remove_file(workspace.path().join("shared.txt")).unwrap();
    let message = CommitMessage {
        subject: "Do it".to_owned(),
        body: "Why.".to_owned(),
    };
    let snapshot = workspace.finish(&message).await;
    assert_eq!(snapshot.files_changed, ["a.txt", "new/x y.txt", "shared.txt"]);
    assert_eq!(snapshot.files_changed_count, 3);
    assert_eq!(snapshot.pushed_ref, Some(remote.order("t-1", "t-1").attempt_ref));
    let commit = snapshot.commit.unwrap();
    let shown = remote.git(&["show", "-s", "--format=%P|%an <%ae>|%cn|%B", &commit]);
    let expected = "|Ann <ann@example.org>|Ann|Do it\n\nWhy.\n\nRalph-Attempt: 1\nRalph-Task: t-1";
    assert_eq!(shown, format!("{}{expected}", remote.base));
}

#[tokio::test]
async fn without_changes_the_attempt_ref_is_the_start() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let snapshot = finish(&workspace).await;
    assert_eq!(snapshot.commit.as_ref(), Some(&remote.base));
    assert_eq!(snapshot.files_changed_count, 0);
    let change = snapshot.change.unwrap();
    assert_eq!((change.base, change.diff.as_str()), (remote.base.clone(), ""));
    assert_eq!(
        remote.head(&snapshot.pushed_ref.unwrap()),
        Some(remote.base.clone())
    );
    finish(&workspace).await;
}

#[tokio::test]
async fn a_second_finish_pushes_the_same_commit_and_never_another() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    fs::write(workspace.path().join("a.txt"), "1\n").unwrap();
    let first = finish(&workspace).await;
    assert_eq!(finish(&workspace).await.commit, first.commit);
    fs::write(workspace.path().join("a.txt"), "2\n").unwrap();
    let error = workspace
        .finish(&CommitMessage::default())
        .await
        .push_error
        .unwrap();
    assert!(error.contains("is left as it is"), "{error}");
    assert_eq!(remote.head(&first.pushed_ref.unwrap()), first.commit);
}

#[tokio::test]
async fn the_agents_git_directory_does_not_matter() {
    type Wreck<'a> = (&'a str, &'a dyn Fn(&Path));
    let wreck: &[Wreck] = &[
        ("deleted", &|tree| fs::remove_dir_all(tree.join(".git")).unwrap()),
        ("garbage", &|tree| {
            fs::write(tree.join(".git/config"), "[nonsense").unwrap()
        }),
        ("a file", &|tree| {
            fs::remove_dir_all(tree.join(".git")).unwrap();
            fs::write(tree.join(".git"), "gitdir: /nowhere\n").unwrap();
        }),
        ("locked", &|tree| {
            fs::write(tree.join(".git/index.lock"), "").unwrap()
        }),
        ("committed", &|tree| {
            drop(git(tree, &["commit", "-q", "--allow-empty", "-m", "mine"]))
        }),
        ("reset", &|tree| {
            git(tree, &["commit", "-q", "--allow-empty", "-m", "mine"]);
            git(tree, &["reset", "-q", "--soft", "HEAD~1"]);
        }),
        ("all committed", &|tree| {
            git(tree, &["add", "-A"]);
            git(tree, &["commit", "-q", "-m", "mine"]);
        }),
        ("switched", &|tree| {
            drop(git(tree, &["switch", "-q", "-c", "mine"]))
        }),
        ("orphan", &|tree| {
            drop(git(tree, &["symbolic-ref", "HEAD", "refs/heads/none"]))
        }),
        ("staged away", &|tree| {
            drop(git(tree, &["rm", "-q", "--cached", "a.txt"]))
        }),
        ("merging", &|tree| {
            fs::write(tree.join(".git/MERGE_HEAD"), "0\n").unwrap()
        }),
        ("exclude", &|tree| {
            fs::write(tree.join(".git/info/exclude"), "*\n").unwrap()
        }),
        ("sparse", &|tree| {
            git(tree, &["config", "core.sparseCheckout", "true"]);
            git(tree, &["config", "core.worktree", "/tmp"]);
        }),
        ("assumed", &|tree| {
            drop(git(tree, &["update-index", "--assume-unchanged", "a.txt"]))
        }),
    ];
    for (name, mess) in wreck {
        assert_eq!(pushed_after(mess).await, SEED, "{name}");
    }
}

/// `*.log` is ignored.
#[tokio::test]
async fn ignored_files_that_an_agent_committed_are_kept() {
    let files = pushed_after(|tree| {
        fs::create_dir(tree.join("dist")).unwrap();
        for name in ["dist/meant *.log", "dist/left.log", "gone.log", "staged.log"] {
            fs::write(tree.join(name), name).unwrap();
        }
        git(tree, &["add", "-f", "--", "dist/meant *.log", "gone.log"]);
        git(tree, &["commit", "-q", "-m", "mine"]);
        git(tree, &["add", "-f", "staged.log"]);
        fs::remove_file(tree.join("gone.log")).unwrap();
    });
    let files = files.await;
    assert_eq!(
        files,
        ".gitignore a.txt dist/meant *.log shared.txt staged.log work.txt"
    );
}

#[tokio::test]
async fn files_hidden_by_a_sparse_checkout_are_not_deleted() {
    let remote = Remote::new();
    let seed = remote.data("seed");
    for name in ["in/a", "out/b", "out/deep/c", "out/gone", "changed/d"] {
        fs::create_dir_all(seed.join(name).parent().unwrap()).unwrap();
        fs::write(seed.join(name), name).unwrap();
    }
    git(&seed, &["add", "-A"]);
    let remote = remote.with_base("Many folders");
    let workspaces = remote.workspaces().await;
    // With a sparse index, only the agent's commit shows that a file of a folder is deleted.
    let whole = &["changed", "changed/d", "in/a", "in/new", "out/gone"][..];
    for (task, more, expected) in [
        ("t-1", "--no-sparse-index", whole),
        ("t-2", "--sparse-index", &whole[..4]),
    ] {
        let workspace = remote.prepare(&workspaces, task).await;
        let tree = workspace.path();
        git(tree, &["rm", "-q", "out/gone"]);
        git(tree, &["commit", "-q", "-m", "mine"]);
        git(tree, &["sparse-checkout", "set", more, "in"]);
        assert!(!tree.join("out").exists(), "{more}");
        fs::remove_file(tree.join("in/a")).unwrap();
        fs::write(tree.join("in/new"), "new").unwrap();
        fs::write(tree.join("changed"), "a file where a folder was").unwrap();
        let snapshot = finish(&workspace).await;
        assert_eq!(snapshot.files_changed, expected, "{more}");
    }
}

#[tokio::test]
async fn an_unreadable_index_of_the_agent_changes_nothing() {
    let messes: &[fn(&Path)] = &[
        |tree| fs::write(tree.join(".git/index"), "DIRC nonsense").unwrap(),
        |tree| {
            git(tree, &["update-index", "--split-index"]);
        },
        |tree| {
            fs::write(tree.join("x.log"), "x").unwrap();
            git(tree, &["add", "-f", "x.log"]);
            fs::rename(tree.join(".git/index"), tree.join("index.log")).unwrap();
            std::os::unix::fs::symlink("../index.log", tree.join(".git/index")).unwrap();
        },
    ];
    for mess in messes {
        assert_eq!(pushed_after(mess).await, SEED);
    }
}

#[tokio::test]
async fn nothing_that_the_agent_configured_is_run() {
    let marker = tempfile::tempdir().unwrap();
    let ran = marker.path().join("ran");
    let program = marker.path().join("program");
    fs::write(&program, format!("#!/bin/sh\ntouch {}\ncat\n", ran.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    let files = pushed_after(|tree| {
        for key in [
            "core.fsmonitor",
            "filter.evil.clean",
            "filter.evil.smudge",
            "diff.evil.textconv",
            "core.sshCommand",
        ] {
            git(tree, &["config", key, program]);
        }
        git(tree, &["config", "filter.evil.required", "true"]);
        fs::create_dir_all(tree.join(".git/hooks")).unwrap();
        for hook in [
            "pre-commit",
            "post-commit",
            "pre-push",
            "post-checkout",
            "reference-transaction",
            "post-index-change",
        ] {
            fs::copy(program, tree.join(".git/hooks").join(hook)).unwrap();
        }
        fs::write(tree.join(".gitattributes"), "* diff=evil\n").unwrap();
    });
    assert_eq!(files.await, ".gitattributes .gitignore a.txt shared.txt work.txt");
    assert!(!ran.exists());
}

#[tokio::test]
async fn nested_repositories_lose_no_files() {
    let nest = |tree: &Path, path: &str, commits: bool| {
        let dir = tree.join(path);
        fs::create_dir_all(&dir).unwrap();
        git(&dir, &["init", "-q"]);
        fs::write(dir.join("inner.txt"), "inner\n").unwrap();
        if commits {
            git(&dir, &["add", "-A"]);
            git(&dir, &["commit", "-q", "-m", "inner"]);
            fs::write(dir.join("later.txt"), "later\n").unwrap();
        }
    };
    assert_eq!(
        pushed_after(|tree| nest(tree, "sub", false)).await,
        ".gitignore a.txt shared.txt sub/inner.txt work.txt"
    );
    let deep = pushed_after(|tree| {
        nest(tree, "sub", true);
        nest(tree, "sub/deep/er", true);
    });
    let expected = ".gitignore a.txt shared.txt \
                    sub/deep/er/inner.txt sub/deep/er/later.txt sub/inner.txt sub/later.txt work.txt";
    assert_eq!(deep.await, expected);
}

#[tokio::test]
async fn inapplicable_attributes_lose_no_files() {
    let files = pushed_after(|tree| {
        fs::write(
            tree.join(".gitattributes"),
            "*.bin working-tree-encoding=UTF-16\n",
        )
        .unwrap();
        fs::write(tree.join("odd.bin"), b"\xff\xfe\x00\xd8x").unwrap();
    });
    assert_eq!(
        files.await,
        ".gitattributes .gitignore a.txt odd.bin shared.txt work.txt"
    );
}

#[tokio::test]
async fn unfinished_objects_of_a_killed_git_are_removed() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let objects = worker_git(&remote, "t-1").join("objects");
    let halves = ["pack/tmp_pack_x", "pack/tmp_idx_x", "ab/tmp_obj_x"].map(|name| objects.join(name));
    fs::create_dir_all(objects.join("ab")).unwrap();
    for half in &halves {
        fs::write(half, "half").unwrap();
    }
    finish(&workspace).await;
    for half in &halves {
        assert!(!half.exists(), "{}", half.display());
    }
}

/// The filters behave like a git that is killed, or out of space, while it writes.
#[tokio::test]
async fn work_that_cannot_be_stored_leaves_no_halves_and_is_tried_once() {
    let test = "snapshots::work_that_cannot_be_stored_leaves_no_halves_and_is_tried_once";
    let Some(user) = User::or_run_as_one(test) else {
        return;
    };
    let calls = user.home().join("calls");
    let begin = format!(
        "echo >> '{}'; mkdir -p \\\"$GIT_DIR/objects/ab\\\"; touch \\\"$GIT_DIR/objects/ab/tmp_obj_x\\\" \
         \\\"$GIT_DIR/objects/pack/tmp_pack_x\\\"",
        calls.display()
    );
    user.write(
        ".gitconfig",
        &format!(
            "[filter \"slow\"]\n\tclean = \"{begin}; sleep 600\"\n\trequired = true\n\
             [filter \"full\"]\n\tclean = \"{begin}; echo No space left on device >&2; false\"\n\trequired = true\n"
        ),
    );
    let remote = Remote::new();
    let settings = Settings {
        local_bound: Duration::from_secs(5),
        ..Settings::default()
    };
    let workspaces = Workspaces::open_with(&remote.data("data"), settings)
        .await
        .unwrap();
    for (filter, words) in [("slow", "it took too long"), ("full", "no space")] {
        let workspace = remote.prepare(&workspaces, filter).await;
        let attributes = format!("a.txt filter={filter}\n");
        fs::write(workspace.path().join(".gitattributes"), attributes).unwrap();
        fs::write(workspace.path().join("a.txt"), "work\n").unwrap();
        let error = workspace.finish(&CommitMessage::default()).await.push_error;
        assert!(
            error.as_ref().is_some_and(|error| error.contains(words)),
            "{filter}: {error:?}"
        );
        let called = fs::read_to_string(&calls).unwrap();
        assert_eq!(called.lines().count(), 1, "{filter}");
        fs::remove_file(&calls).unwrap();
        let objects = worker_git(&remote, filter).join("objects");
        assert!(objects.join("ab").exists(), "{filter}");
        for half in ["ab/tmp_obj_x", "pack/tmp_pack_x"] {
            assert!(!objects.join(half).exists(), "{filter}: {half}");
        }
    }
}

/// The worker's git directory of a workspace.
fn worker_git(remote: &Remote, dispatch: &str) -> PathBuf {
    let records = remote.data("data/records");
    records.join(remote.dispatch(dispatch)).join("git")
}

#[tokio::test]
async fn files_with_restrictive_modes_are_stored_and_removed() {
    // Drop root's right to read files against their modes.
    drop_root_rights();
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let tree = workspace.path().to_owned();
    let home = workspace.home();
    for folder in [tree.join("deep/er"), home.join("cache/er")] {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), "x").unwrap();
    }
    let lock = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    lock(&tree.join("a.txt"), 0o000);
    lock(&tree.join("deep/er"), 0o000);
    lock(&tree.join("deep"), 0o111);
    lock(&home.join("cache/er"), 0o555);
    lock(&tree, 0o000);
    let snapshot = finish(&workspace).await;
    assert_eq!(snapshot.files_changed, ["deep/er/file"]);
    workspace.remove().await.unwrap();
    assert!(!tree.exists() && !home.exists());
}

/// Drops the capabilities that let root read everything, for this thread and its children.
fn drop_root_rights() {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};
    let override_modes = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER;
    let held = capabilities(None).unwrap();
    let less = CapabilitySets {
        effective: held.effective - override_modes,
        permitted: held.permitted - override_modes,
        inheritable: CapabilitySet::empty(),
    };
    set_no_new_privs(true).unwrap();
    set_capabilities(None, less).unwrap();
}

#[tokio::test]
async fn unusual_names_and_file_types_are_stored() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let names: [&[u8]; 5] = [
        b"with space",
        b"new\nline",
        b"not \xff\xfe utf8",
        b"\"quoted\"",
        b"-dash",
    ];
    for name in names {
        fs::write(workspace.path().join(OsStr::from_bytes(name)), "x").unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", workspace.path().join("link")).unwrap();
    nix::unistd::mkfifo(&workspace.path().join("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    let snapshot = finish(&workspace).await;
    assert_eq!(snapshot.files_changed_count, 6);
    assert!(
        snapshot
            .files_changed
            .contains(&"not \u{fffd}\u{fffd} utf8".to_owned())
    );
    let listed = remote.git(&["ls-tree", "-r", "-z", "--name-only", &snapshot.commit.unwrap()]);
    assert!(listed.contains("new\nline\0"), "{listed:?}");
}

#[tokio::test]
async fn pipes_in_place_of_git_files_do_not_block() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let below = workspace.path().join("below");
    fs::create_dir(&below).unwrap();
    fs::write(below.join("kept"), "x").unwrap();
    for name in [".gitignore", ".gitattributes"] {
        nix::unistd::mkfifo(&below.join(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let snapshot = finish(&workspace).await;
    assert_eq!(snapshot.files_changed, ["below/kept"]);
}

#[tokio::test]
async fn a_deleted_folder_is_a_deletion_of_everything() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    fs::remove_dir_all(workspace.path()).unwrap();
    assert_eq!(finish(&workspace).await.files_changed_count, 3);
}

#[tokio::test]
async fn a_refused_push_keeps_the_work_for_later() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    fs::write(workspace.path().join("a.txt"), "1\n").unwrap();
    remote.hook("pre-receive", "echo 'not today' >&2; exit 1");
    let snapshot = workspace.finish(&CommitMessage::default()).await;
    let error = snapshot.push_error.unwrap();
    assert!(
        error.contains("declined") && error.contains("not today") && error.contains("to do: "),
        "{error}"
    );
    assert!(
        workspaces.unpushed().await.is_empty(),
        "the workspace is still in use"
    );
    drop(workspace);
    remote.hook("pre-receive", "exit 0");
    let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
    assert_eq!(rescued.len(), 1);
    assert_eq!(rescued[0].1.commit, snapshot.commit);
    assert_eq!(
        remote.head(rescued[0].1.pushed_ref.as_ref().unwrap()),
        snapshot.commit
    );
    assert!(workspaces.unpushed().await.is_empty());
}

#[tokio::test]
async fn a_hanging_push_keeps_the_snapshot_and_the_work_for_later() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    fs::write(workspace.path().join("a.txt"), "1\n").unwrap();
    let began = tempfile::tempdir().unwrap();
    let mark = began.path().join("began");
    remote.hook("pre-receive", &format!("touch '{}'; sleep 600", mark.display()));
    let time_is_up = async {
        while !mark.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let snapshot = workspace
        .finish_within(&CommitMessage::default(), time_is_up)
        .await;
    assert_eq!(snapshot.files_changed, ["a.txt"]);
    assert_eq!(snapshot.pushed_ref, None);
    assert!(
        snapshot
            .push_error
            .is_some_and(|error| error.contains("no more time"))
    );
    assert!(workspace.is_away());
    drop(workspace);
    remote.hook("pre-receive", "exit 0");
    let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
    assert_eq!(rescued.len(), 1);
    assert!(rescued[0].1.is_pushed());
}

#[tokio::test]
async fn a_throw_away_workspace_pushes_nothing_and_reports_changes() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let order = WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    let workspace = workspaces.prepare_throw_away("t-1", &order).await.unwrap();
    fs::write(workspace.path().join("build product"), "x").unwrap();
    assert_eq!(
        workspace.changed_tracked_files().await.unwrap(),
        Vec::<String>::new()
    );
    fs::write(workspace.path().join("a.txt"), "changed").unwrap();
    assert_eq!(workspace.changed_tracked_files().await.unwrap(), ["a.txt"]);
    let snapshot = finish(&workspace).await;
    assert_eq!((snapshot.commit, snapshot.pushed_ref), (None, None));
    assert_eq!(remote.head(&remote.order("t-1", "t-1").attempt_ref), None);
    drop(workspace);
    assert!(workspaces.unpushed().await.is_empty());
}

#[tokio::test]
async fn a_submodule_stays_one_whatever_happens_to_its_git_directory() {
    let remote = Remote::new();
    let seed = remote.dir.path().join("seed");
    let commit = git(&seed, &["rev-parse", "HEAD"]);
    git(
        &seed,
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{commit},sub"),
        ],
    );
    let remote = remote.with_base("Add a submodule");
    let workspaces = remote.workspaces().await;
    let wreck: [&dyn Fn(&Path); 3] = [
        &|_| {},
        &|sub| fs::write(sub.join(".git"), "gitdir: ../.git/modules/sub\n").unwrap(),
        &|sub| fs::write(sub.join("file"), "x").unwrap(),
    ];
    for (number, mess) in wreck.iter().enumerate() {
        let workspace = remote.prepare(&workspaces, &format!("t-{number}")).await;
        mess(&workspace.path().join("sub"));
        fs::write(workspace.path().join("a.txt"), "work\n").unwrap();
        let snapshot = finish(&workspace).await;
        assert_eq!(snapshot.files_changed, ["a.txt"], "{number}");
        let listed = remote.git(&["ls-tree", &snapshot.commit.unwrap(), "sub"]);
        assert_eq!(listed, format!("160000 commit {commit}\tsub"), "{number}");
    }
}

#[tokio::test]
async fn a_record_of_a_later_release_is_left_alone() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let file = workspace.path().join("work.txt");
    fs::write(&file, "work\n").unwrap();
    drop(workspace);
    fs::write(
        remote
            .data("data/records")
            .join(remote.dispatch("t-1"))
            .join("workspace.json"),
        r#"{"state":"of a later release"}"#,
    )
    .unwrap();
    assert!(workspaces.unpushed().await.is_empty());
    assert!(file.exists());
}
