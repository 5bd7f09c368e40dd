//! Unusual repositories: very many files, very large ones, names and line ends on which systems differ, and a
//! base that disappears.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use ralph_shared::wire::IntegrationEnd;

use crate::remote::{BRANCH, FEATURE, Remote, finish, git, integrate_order};
use crate::user::User;

/// Adds `count` small files to `main`, in folders of a thousand; returns the commit.
fn with_many_files(remote: &Remote, count: usize) -> String {
    let mut import = Command::new("git")
        .args(["fast-import", "--quiet", "--force"])
        .current_dir(remote.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stream =
        String::from("commit refs/heads/main\ncommitter T <t@t> 1700000000 +0000\ndata 4\nmany\n");
    stream.push_str(&format!("from {}\n", remote.base));
    for number in 0..count {
        let text = format!("{number}\n");
        let path = format!("many/{}/{number}.txt", number / 1_000);
        stream.push_str(&format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len()));
    }
    import.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
    remote.git(&["rev-parse", "main"])
}

#[tokio::test]
async fn a_hundred_thousand_files_are_cloned_changed_and_landed() {
    let remote = Remote::new();
    let base = with_many_files(&remote, 100_000);
    let remote = Remote { base, ..remote };
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    assert!(workspace.path().join("many/99/99999.txt").exists());
    fs::write(workspace.path().join("many/0/0.txt"), "changed\n").unwrap();
    fs::remove_dir_all(workspace.path().join("many/50")).unwrap();
    let snapshot = finish(&workspace).await;
    assert_eq!(snapshot.files_changed_count, 1_001);
    assert_eq!(snapshot.files_changed.len(), 500, "only some files are named");
    workspace.remove().await.unwrap();
    let order = integrate_order("t-1", &snapshot.commit.unwrap());
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(
        matches!(ended, IntegrationEnd::Merged { empty: false, .. }),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_huge_file_is_pushed_whole() {
    const BYTES: u64 = 540 << 20;
    let remote = Remote::new();
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    // Mostly a hole: large for git, small on disk.
    let mut file = File::create(workspace.path().join("huge.bin")).unwrap();
    file.write_all(b"begin").unwrap();
    file.set_len(BYTES).unwrap();
    let snapshot = finish(&workspace).await;
    let size = remote.git(&[
        "cat-file",
        "-s",
        &format!("{}:huge.bin", snapshot.commit.unwrap()),
    ]);
    assert_eq!(size, BYTES.to_string());
}

#[tokio::test]
async fn unusual_file_names_land_unchanged() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let names: [&[u8]; 5] = [
        b"with space",
        b"new\nline",
        b"not \xff utf8",
        b"\"quoted\"",
        b"tab\tbed",
    ];
    let workspace = remote.prepare(&workspaces, "t-1").await;
    for name in names {
        fs::write(workspace.path().join(OsStr::from_bytes(name)), "x").unwrap();
    }
    let order = integrate_order("t-1", &finish(&workspace).await.commit.unwrap());
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    // The next attempt finds the files, changes one and deletes one.
    let next = remote.prepare(&workspaces, "t-2").await;
    let at = |name: &[u8]| next.path().join(OsStr::from_bytes(name));
    fs::write(at(b"new\nline"), "y").unwrap();
    fs::remove_file(at(b"not \xff utf8")).unwrap();
    let snapshot = finish(&next).await;
    assert_eq!(snapshot.files_changed, ["new\nline", "not \u{fffd} utf8"]);
    let order = integrate_order("t-2", &snapshot.commit.unwrap());
    remote.integrate(&workspaces, "t-2", "i-2", &order).await;
    let listed = remote.git(&["ls-tree", "-z", "--name-only", FEATURE]);
    assert!(
        listed.contains("tab\tbed\0") && !listed.contains("utf8"),
        "{listed:?}"
    );
}

#[tokio::test]
async fn a_rename_that_changes_only_the_case_lands() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let workspace = remote.prepare(&workspaces, "t-1").await;
    fs::rename(workspace.path().join("a.txt"), workspace.path().join("A.txt")).unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    let order = integrate_order("t-1", &commit);
    remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    let listed = remote.git(&["ls-tree", "--name-only", FEATURE]);
    assert!(listed.contains("A.txt") && !listed.contains("a.txt"), "{listed}");
    assert!(
        remote
            .prepare(&workspaces, "t-2")
            .await
            .path()
            .join("A.txt")
            .exists()
    );
}

#[tokio::test]
async fn line_end_rules_apply_and_untouched_files_stay() {
    let test = "odd::line_end_rules_apply_and_untouched_files_stay";
    let Some(user) = User::or_run_as_one(test) else {
        return;
    };
    user.write(".gitconfig", "[core]\n\tautocrlf = true\n\tsafecrlf = true\n");
    let remote = Remote::new();
    remote.commit(
        "main",
        &remote.base,
        ".gitattributes",
        "*.bat eol=crlf\n*.bin -text\n",
    );
    let seed = remote.data("seed");
    fs::write(seed.join("run.bat"), "one\r\n").unwrap();
    fs::write(seed.join("raw.bin"), "a\r\nb\n").unwrap();
    git(&seed, &["add", "-A"]);
    // Stored against the rules, as by a person without them.
    let blob = {
        fs::write(seed.join("stored.bat"), "crlf\r\n").unwrap();
        git(&seed, &["hash-object", "-w", "--no-filters", "stored.bat"])
    };
    git(
        &seed,
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("100644,{blob},stored.bat"),
        ],
    );
    let remote = remote.with_base("Mix line ends");
    let workspace = remote.prepare(&remote.workspaces().await, "t-1").await;
    let read = |name: &str| fs::read(workspace.path().join(name)).unwrap();
    assert_eq!(read("run.bat"), b"one\r\n");
    assert_eq!(read("raw.bin"), b"a\r\nb\n");
    fs::write(workspace.path().join("run.bat"), "one\r\ntwo\r\n").unwrap();
    fs::write(workspace.path().join("mixed.txt"), "lf\ncrlf\r\n").unwrap();
    let snapshot = finish(&workspace).await;
    let changed: Vec<_> = snapshot
        .files_changed
        .iter()
        .filter(|path| *path != "stored.bat")
        .collect();
    assert_eq!(changed, ["mixed.txt", "run.bat"]);
    let commit = snapshot.commit.unwrap();
    let stored = |name: &str| {
        let object = format!("{commit}:{name}");
        let mut show = Command::new("git");
        show.args(["show", &object]).current_dir(remote.path());
        show.output().unwrap().stdout
    };
    assert_eq!(stored("run.bat"), b"one\ntwo\n");
    assert_eq!(stored("raw.bin"), b"a\r\nb\n");
}

#[tokio::test]
async fn a_rewritten_base_does_not_stop_a_running_feature() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &commit))
        .await;
    let commit = remote.attempt(&workspaces, "t-2", "more.txt", "more\n").await;
    // The user starts `main` anew and deletes the old history.
    let empty = remote.git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let fresh = git(&remote.path(), &["commit-tree", "-m", "Anew", &empty]);
    remote.git(&["update-ref", "refs/heads/main", &fresh]);
    remote.git(&["reflog", "expire", "--expire=now", "--all"]);
    remote.git(&["gc", "-q", "--prune=now"]);
    let elsewhere = ralph_worker::workspace::Workspaces::open(&remote.data("other"))
        .await
        .unwrap();
    let ended = remote
        .integrate(&elsewhere, "t-2", "i-2", &integrate_order("t-2", &commit))
        .await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    let next = remote.prepare(&elsewhere, "t-3").await;
    assert!(next.path().join("new.txt").exists() && next.path().join("more.txt").exists());
    assert_eq!(remote.git(&["rev-list", "--count", BRANCH]), "3");
    assert!(Path::new(&remote.path()).exists());
}
