//! An agent's commits outside of its final tree (orphan commits) are pushed beside its attempt.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ralph_shared::wire::{OrphanRef, Snapshot};
use ralph_worker::workspace::CommitMessage;

use crate::remote::{BRANCH, Remote, finish, git};

fn commit(tree: &Path, file: &str) -> String {
    fs::write(tree.join(file), format!("{file}\n")).unwrap();
    git(tree, &["add", "-A"]);
    git(tree, &["commit", "-q", "-m", file]);
    git(tree, &["rev-parse", "HEAD"])
}

/// Each orphan commit, with the end of the ref to which it was pushed.
fn pushed(snapshot: &Snapshot, attempt_ref: &str) -> BTreeMap<String, String> {
    let end = |stray: &OrphanRef| {
        let name = stray.pushed_ref.as_ref().unwrap();
        let end = name.strip_prefix(&format!("{attempt_ref}-strays/")).unwrap();
        (stray.what.clone(), end.to_owned())
    };
    snapshot.strays.iter().map(end).collect()
}

#[tokio::test]
async fn branches_detached_commits_and_stashes_are_pushed() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let tree = workspace.path();
    git(tree, &["switch", "-q", "-c", "topic/one"]);
    let topic = commit(tree, "topic.txt");
    git(tree, &["checkout", "-q", "--detach", BRANCH]);
    let detached = commit(tree, "detached.txt");
    git(tree, &["checkout", "-q", BRANCH]);
    for file in ["older.txt", "newer.txt"] {
        fs::write(tree.join("a.txt"), file).unwrap();
        fs::write(tree.join(file), file).unwrap();
        git(tree, &["stash", "-q", "-u"]);
    }
    git(tree, &["gc", "-q"]);
    // Ancestors of the final files are no orphans, nor are branches of them or commits of the base.
    commit(tree, "step.txt");
    git(tree, &["branch", "step"]);
    commit(tree, "last.txt");
    git(tree, &["branch", "from-base", &remote.base]);
    git(tree, &["tag", "-a", "-m", "v1", "v1", "topic/one"]);

    let snapshot = finish(&workspace).await;
    let attempt_ref = remote.order("t-1", "t-1").attempt_ref;
    let expected = [
        ("branch topic/one", "branches/topic/one"),
        ("detached HEAD", "detached/0"),
        ("stash 0", "stashes/0"),
        ("stash 1", "stashes/1"),
    ];
    let expected = expected.map(|(what, end)| (what.to_owned(), end.to_owned()));
    assert_eq!(pushed(&snapshot, &attempt_ref), expected.into());
    assert!(snapshot.is_pushed());
    let head = |end: &str| remote.head(&format!("{attempt_ref}-strays/{end}"));
    assert_eq!(head("branches/topic/one"), Some(topic));
    assert_eq!(head("detached/0"), Some(detached));
    let untracked = format!("{attempt_ref}-strays/stashes/1^3:older.txt");
    assert_eq!(remote.git(&["show", &untracked]), "older.txt");
    let own = remote.git(&["ls-tree", "-r", "--name-only", &attempt_ref]);
    assert_eq!(
        own.replace('\n', " "),
        ".gitignore a.txt last.txt shared.txt step.txt"
    );
    remote.git(&["fsck", "--strict"]);

    // A repeated report, as after a lost one, finds all of them pushed.
    assert_eq!(finish(&workspace).await.strays, snapshot.strays);

    // They are pruned with the attempt's ref, and only with that.
    remote.attempt(&workspaces, "t-2", "x.txt", "x").await;
    let other = remote.order("t-2", "t-2").attempt_ref;
    let address = remote.path().to_str().unwrap().to_owned();
    let pruned = workspaces
        .prune(&address, &remote.base, std::slice::from_ref(&other))
        .await;
    assert_eq!((pruned.gone, pruned.error), (vec![other], None));
    assert!(head("stashes/0").is_some());
    let pruned = workspaces
        .prune(&address, &remote.base, std::slice::from_ref(&attempt_ref))
        .await;
    assert_eq!((pruned.gone, pruned.error), (vec![attempt_ref], None));
    let refs = remote.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/attempts"]);
    assert_eq!(refs, "");
}

#[tokio::test]
async fn nested_work_trees_are_no_part_of_the_attempt() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let tree = workspace.path();
    fs::write(tree.join("work.txt"), "work\n").unwrap();
    let add = |name: &str, more: &[&str]| {
        let path = format!(".claude/worktrees/{name}");
        git(tree, &[&["worktree", "add", "-q", &path], more].concat());
        tree.join(path)
    };
    let one = add("one", &["-b", "agent-one"]);
    let committed = commit(&one, "one.txt");
    fs::write(one.join("later.txt"), "later\n").unwrap();
    let two = add("two", &["--detach"]);
    fs::remove_file(two.join("a.txt")).unwrap();
    add("clean", &["-b", "agent-clean"]);
    // A work tree of another repository is like any nested repository.
    let elsewhere = remote.data("elsewhere");
    git(remote.dir.path(), &["clone", "-q", "repo.git", "elsewhere"]);
    let other = tree.join("other");
    git(
        &elsewhere,
        &["worktree", "add", "-q", other.to_str().unwrap(), "HEAD"],
    );

    let snapshot = finish(&workspace).await;
    let expected = ["other/.gitignore", "other/a.txt", "other/shared.txt", "work.txt"];
    assert_eq!(snapshot.files_changed, expected);
    let attempt_ref = remote.order("t-1", "t-1").attempt_ref;
    let expected = [
        ("branch agent-one", "branches/agent-one"),
        ("work tree .claude/worktrees/one", "worktrees/one"),
        ("work tree .claude/worktrees/two", "worktrees/two"),
    ];
    let expected = expected.map(|(what, end)| (what.to_owned(), end.to_owned()));
    assert_eq!(pushed(&snapshot, &attempt_ref), expected.into());
    let one = format!("{attempt_ref}-strays/worktrees/one");
    assert_eq!(remote.git(&["rev-parse", &format!("{one}^")]), committed);
    assert_eq!(remote.git(&["show", &format!("{one}:later.txt")]), "later");
    let two = format!("{attempt_ref}-strays/worktrees/two");
    assert_eq!(
        remote.git(&["ls-tree", "--name-only", &two]),
        ".gitignore\nshared.txt"
    );
    remote.git(&["fsck", "--strict"]);

    // A second finish finds everything pushed.
    let again = finish(&workspace).await;
    assert_eq!((again.commit, again.strays), (snapshot.commit, snapshot.strays));
}

#[tokio::test]
async fn a_commit_that_the_agent_moved_away_from_is_pushed() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let tree = workspace.path();
    let own = commit(tree, "own.txt");
    git(tree, &["checkout", "-q", "--detach", &remote.base]);
    let snapshot = finish(&workspace).await;
    assert_eq!(snapshot.commit, Some(remote.base.clone()));
    let attempt_ref = remote.order("t-1", "t-1").attempt_ref;
    let name = format!("{attempt_ref}-strays/branches/{BRANCH}");
    assert_eq!(snapshot.strays[0].pushed_ref.as_deref(), Some(name.as_str()));
    assert_eq!(remote.head(&name), Some(own));
}

#[tokio::test]
async fn only_object_files_of_the_agents_clone_are_copied() {
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let tree = workspace.path();
    let ran = remote.data("ran");
    git(tree, &["switch", "-q", "-c", "mine"]);
    let mine = commit(tree, "mine.txt");
    git(tree, &["checkout", "-q", BRANCH]);
    // Another repository, which the agent must not read, as an alternate object store and as a link.
    let secret = remote.data("secret");
    git(remote.dir.path(), &["init", "-q", "secret"]);
    let hidden = commit(&secret, "hidden.txt");
    git(&secret, &["gc", "-q"]);
    let objects = secret.join(".git/objects");
    let alternates = tree.join(".git/objects/info/alternates");
    let listed = fs::read_to_string(&alternates).unwrap();
    fs::write(&alternates, format!("{listed}{}\n", objects.display())).unwrap();
    fs::create_dir_all(tree.join(".git/objects/pack")).unwrap();
    for file in fs::read_dir(objects.join("pack")).unwrap().flatten() {
        symlink(file.path(), tree.join(".git/objects/pack").join(file.file_name())).unwrap();
    }
    fs::write(tree.join(".git/refs/heads/hidden"), &hidden).unwrap();
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.gitProxy",
        "uploadpack.packObjectsHook",
    ] {
        git(tree, &["config", key, &format!("touch {}", ran.display())]);
    }
    fs::write(
        tree.join(".git/refs/heads/none"),
        "0123456789012345678901234567890123456789",
    )
    .unwrap();

    let snapshot = finish(&workspace).await;
    let commits: Vec<&str> = snapshot
        .strays
        .iter()
        .map(|stray| stray.commit.as_str())
        .collect();
    assert_eq!(commits, [mine]);
    assert!(!ran.exists());
    let found = remote.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
    assert!(!found.contains(&hidden));
}

#[tokio::test]
async fn too_many_or_refused_orphan_commits_do_not_stop_the_attempt() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let tree = workspace.path().to_owned();
    for number in 0..52 {
        git(&tree, &["checkout", "-q", "-b", &format!("b{number:02}"), BRANCH]);
        git(
            &tree,
            &["commit", "-q", "--allow-empty", "-m", &number.to_string()],
        );
        // A different tree than the attempt's.
        if number % 50 == 0 {
            commit(&tree, "more.txt");
        }
    }
    git(&tree, &["checkout", "-q", BRANCH]);
    fs::write(tree.join("work.txt"), "work\n").unwrap();
    remote.hook(
        "update",
        "case $1 in *-strays/*/b1*) echo 'GH006: Protected branch' >&2; exit 1;; esac",
    );
    let snapshot = workspace.finish(&CommitMessage::default()).await;
    assert_eq!(snapshot.push_error, None);
    assert!(snapshot.pushed_ref.is_some());
    let refused = |stray: &&OrphanRef| {
        stray
            .error
            .as_ref()
            .is_some_and(|error| error.contains("declined"))
    };
    let refused: Vec<_> = snapshot.strays.iter().filter(refused).collect();
    assert_eq!(refused.len(), 10);
    assert!(!refused.iter().any(|stray| stray.waits), "{refused:?}");
    let over_limit = |stray: &&OrphanRef| !refused.contains(stray) && stray.pushed_ref.is_none();
    let over: Vec<_> = snapshot.strays.iter().filter(over_limit).collect();
    assert_eq!(over.len(), 2, "{over:?}");
    assert!(over[0].error.as_ref().unwrap().contains("at most 50"), "{over:?}");

    // Keeping it would not help.
    assert!(snapshot.is_pushed());
    drop(workspace);
    let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
    assert_eq!(rescued.len(), 1);
    assert!(rescued[0].1.is_pushed(), "{rescued:?}");
    assert!(!tree.exists());
    let listed = remote.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/attempts"]);
    assert_eq!(listed.lines().count(), 41);
}

#[tokio::test]
async fn an_orphan_commit_that_the_server_has_no_space_for_waits() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let tree = workspace.path().to_owned();
    for branch in ["one", "two"] {
        git(&tree, &["checkout", "-q", "-b", branch, BRANCH]);
        commit(&tree, branch);
    }
    git(&tree, &["checkout", "-q", BRANCH]);
    remote.hook(
        "update",
        "case $1 in *-strays/*/one) echo 'No space left on device' >&2; exit 1;; esac",
    );
    let snapshot = workspace.finish(&CommitMessage::default()).await;
    let waits: Vec<_> = snapshot.strays.iter().map(|stray| stray.waits).collect();
    assert_eq!((snapshot.push_error, waits), (None, vec![true, false]));
    drop(workspace);
    fs::remove_file(remote.path().join("hooks/update")).unwrap();
    let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
    assert_eq!(rescued.len(), 1);
    assert!(rescued[0].1.is_pushed(), "{rescued:?}");
    assert!(!tree.exists());
    let listed = remote.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/attempts"]);
    assert_eq!(listed.lines().count(), 3);
}
