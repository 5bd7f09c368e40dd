//! Files that commands find in this folder and above, and the owner that each must have.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use ralph_tests::harness::{binary, configure};

/// Nothing listens there.
const NOWHERE: &str = "http://127.0.0.1:9";
const NOBODY: u32 = 65534;

/// Runs a program below `folder`, where it must fail; gives its output.
fn failing_output(folder: &Path, program: &str, args: &[&str], token: Option<&str>) -> String {
    let below = folder.join("a/b");
    fs::create_dir_all(&below).unwrap();
    let mut command = Command::new(binary(program));
    command
        .args(args)
        .current_dir(below)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder);
    if let Some(token) = token {
        command.env("RALPH_TOKEN", token);
    }
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8([output.stderr, output.stdout].concat()).unwrap()
}

/// Creates a data folder with an address in it; gives its lock, which nobody holds yet.
fn published(folder: &Path) -> File {
    let data = folder.join(".ralph");
    fs::create_dir(&data).unwrap();
    let api_file = serde_json::json!({"url": NOWHERE, "token": "theirs"});
    fs::write(data.join("api.json"), api_file.to_string()).unwrap();
    fs::set_permissions(data.join("api.json"), Permissions::from_mode(0o600)).unwrap();
    File::create(data.join("lock")).unwrap()
}

#[test]
fn an_address_is_found_only_where_an_up_of_this_user_runs() {
    let root = tempfile::tempdir().unwrap();
    let lock = published(root.path());
    let status = || failing_output(root.path(), "ralph-coordinator", &["status"], None);
    // An address from a clone, or from an `up` that was killed.
    let stale = status();
    assert!(stale.contains("found no running coordinator"), "{stale}");
    lock.lock().unwrap();
    let used = status();
    assert!(used.contains(NOWHERE), "{used}");

    let file = root.path().join(".ralph/api.json");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let open = status();
    assert!(
        open.contains("read by other users") && !open.contains(NOWHERE),
        "{open}"
    );
    if nix::unistd::geteuid().is_root() {
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        chown(root.path().join(".ralph"), Some(NOBODY), None).unwrap();
        let theirs = status();
        assert!(
            theirs.contains("is another user's") && !theirs.contains(NOWHERE),
            "{theirs}"
        );
    }
}

#[test]
fn a_given_token_is_not_sent_to_an_address_that_was_only_found() {
    let root = tempfile::tempdir().unwrap();
    let lock = published(root.path());
    lock.lock().unwrap();
    let refused = failing_output(root.path(), "ralph-coordinator", &["status"], Some("mine"));
    assert!(
        refused.contains("set RALPH_URL") && !refused.contains(NOWHERE),
        "{refused}"
    );
    // A data folder that is given counts like an address.
    let data = root.path().join(".ralph");
    let named = ["status", "--data", data.to_str().unwrap(), "--token", "mine"];
    let used = failing_output(root.path(), "ralph-coordinator", &named, None);
    assert!(used.contains(NOWHERE), "{used}");
}

#[test]
fn configuration_of_another_user_is_not_obeyed() {
    if !nix::unistd::geteuid().is_root() {
        return; // Nobody else can give a file away.
    }
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join(".ralph.toml");
    fs::write(&file, "[agent]\ncommand = 'their-program'\n").unwrap();
    chown(&file, Some(NOBODY), None).unwrap();
    for (program, args) in [
        ("ralph-coordinator", &["config"][..]),
        ("ralph-worker", &["run", "--nats", "nats://127.0.0.1:9"][..]),
    ] {
        let refused = failing_output(root.path(), program, args, None);
        let words = ["is another user's", file.to_str().unwrap()];
        assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
        assert!(!refused.contains("their-program"), "{refused}");
    }
    let named = ["doctor", "--sandbox", "none", "--config", file.to_str().unwrap()];
    let used = failing_output(root.path(), "ralph-worker", &named, None);
    assert!(!used.contains("is another user's"), "{used}");
}

/// Runs git in a folder as a person would.
fn git(folder: &Path, args: &[&str]) {
    let names = ["-c", "user.name=P", "-c", "user.email=p@example.org"];
    let status = Command::new("git")
        .args(names)
        .arg("-C")
        .arg(folder)
        .args(args)
        .status();
    assert!(status.unwrap().success(), "git {args:?}");
}

/// Every way in which an agent's file has got to where programs look for their configuration.
#[test]
fn a_configuration_without_consent_is_not_obeyed() {
    const AGENTS: &str =
        "[agent]\ncommand = 'their-program'\n[workspace]\nsandbox = 'none'\n[verify]\ncommands = ['true']\n";
    type Layout = fn(&Path);
    let commit = |folder: &Path, message: &str| {
        git(folder, &["add", "--all"]);
        git(folder, &["commit", "-q", "-m", message]);
    };
    let layouts: [(&str, Layout); 7] = [
        ("a folder without git", |_| {}),
        ("a commit of a task", |root| {
            git(root, &["init", "-q"]);
            git(root, &["add", ".ralph.toml"]);
            git(root, &["commit", "-q", "-m", "Do it\n\nRalph-Task: t-1"]);
        }),
        ("a squash merge, whose body ends otherwise", |root| {
            git(root, &["init", "-q"]);
            git(root, &["add", ".ralph.toml"]);
            let body = "Feature (#7)\n\n* Do it\n\nRalph-Task: t-1\n\n---------\n\nCo-authored-by: P <p@example.org>";
            git(root, &["commit", "-q", "-m", body]);
        }),
        ("a file that a person renamed", |root| {
            git(root, &["init", "-q"]);
            fs::rename(root.join(".ralph.toml"), root.join("example.toml")).unwrap();
            git(root, &["add", "example.toml"]);
            git(root, &["commit", "-q", "-m", "Example\n\nRalph-Task: t-1"]);
            git(root, &["mv", "example.toml", ".ralph.toml"]);
            git(root, &["commit", "-q", "-m", "Rename it"]);
        }),
        ("a link to a file of a task", |root| {
            fs::rename(root.join(".ralph.toml"), root.join("example.toml")).unwrap();
            std::os::unix::fs::symlink("example.toml", root.join(".ralph.toml")).unwrap();
        }),
        ("a person's commit that changes its mode alone", |root| {
            git(root, &["init", "-q"]);
            git(root, &["add", ".ralph.toml"]);
            git(root, &["commit", "-q", "-m", "Do it\n\nRalph-Task: t-1"]);
            fs::set_permissions(root.join(".ralph.toml"), Permissions::from_mode(0o755)).unwrap();
            git(root, &["commit", "-q", "-a", "-m", "Change its mode"]);
        }),
        ("a file that git ignores", |root| {
            git(root, &["init", "-q"]);
            fs::write(root.join(".gitignore"), ".ralph.toml\n").unwrap();
        }),
    ];
    let commands: [(&str, &[&str]); 5] = [
        ("ralph-worker", &["run", "--nats", "nats://127.0.0.1:9"]),
        ("ralph-worker", &["doctor"]),
        ("ralph-worker", &["chat", "."]),
        ("ralph-coordinator", &["serve"]),
        (
            "ralph-coordinator",
            &[
                "submit",
                "feature",
                "x",
                "--description",
                "x",
                "--no-repo",
                "--url",
                NOWHERE,
                "--token",
                "t",
            ],
        ),
    ];
    for (layout, arrange) in layouts {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(".ralph.toml");
        fs::write(&file, AGENTS).unwrap();
        arrange(root.path());
        for (program, args) in commands {
            let refused = failing_output(root.path(), program, args, None);
            assert!(
                refused.contains("config trust") && !refused.contains("their-program"),
                "{layout}: {program} {args:?}: {refused}"
            );
        }
        let doctor = failing_output(root.path(), "ralph-coordinator", &["doctor"], None);
        assert!(doctor.contains("is not trusted"), "{layout}: {doctor}");
    }
    // A person's consent holds until the file changes.
    let root = tempfile::tempdir().unwrap();
    git(root.path(), &["init", "-q"]);
    configure(root.path(), AGENTS);
    commit(root.path(), "Configure");
    let obeyed = failing_output(root.path(), "ralph-worker", &["doctor"], None);
    assert!(obeyed.contains("their-program"), "{obeyed}");
    fs::write(
        root.path().join(".ralph.toml"),
        AGENTS.replace("their", "another"),
    )
    .unwrap();
    let refused = failing_output(root.path(), "ralph-worker", &["doctor"], None);
    assert!(refused.contains("config trust"), "{refused}");
}

#[test]
fn consent_is_given_and_revoked() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join(".ralph.toml"), "[agent]\ncommand = 'mine'\n").unwrap();
    let config = |args: &[&str]| {
        let mut command = Command::new(binary("ralph-coordinator"));
        command
            .arg("config")
            .args(args)
            .current_dir(root.path())
            .env("HOME", root.path())
            .env_remove("XDG_STATE_HOME");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8([output.stderr, output.stdout].concat()).unwrap()
    };
    let obeyed = || !failing_output(root.path(), "ralph-worker", &["doctor"], None).contains("config trust");
    assert!(config(&["agent.command"]).contains("is not trusted") && !obeyed());
    assert!(config(&["trust"]).contains("is trusted as it is now") && obeyed());
    assert!(!config(&["agent.command"]).contains("is not trusted"));
    let file = root.path().join(".ralph.toml");
    let listed = || config(&["trust", "--list"]);
    assert!(
        listed().contains(&format!("{}\n", file.display())),
        "{}",
        listed()
    );
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}tools = 'x'\n")).unwrap();
    assert!(
        listed().contains(".ralph.toml  (changed or gone since)"),
        "{}",
        listed()
    );
    fs::write(&file, text).unwrap();
    assert!(config(&["trust", "--revoke"]).contains("no longer trusted") && !obeyed());
    assert!(!listed().contains(".ralph.toml"), "{}", listed());
}

#[test]
fn up_refuses_a_data_folder_that_git_tracks() {
    let root = tempfile::tempdir().unwrap();
    git(root.path(), &["init", "-q"]);
    let postgres = root.path().join(".ralph/postgres");
    fs::create_dir_all(&postgres).unwrap();
    fs::create_dir_all(root.path().join(".ralph/knowledge")).unwrap();
    fs::write(
        postgres.join("postgresql.conf"),
        "archive_command = 'their-program'\n",
    )
    .unwrap();
    fs::write(root.path().join(".ralph/knowledge/a.md"), "a\n").unwrap();
    git(root.path(), &["add", "--force", "--all"]);
    git(root.path(), &["commit", "-q", "-m", "Do it"]);
    let data = root.path().join(".ralph");
    let refused = failing_output(
        root.path(),
        "ralph-coordinator",
        &["up", "--data", data.to_str().unwrap()],
        None,
    );
    assert!(
        refused.contains("git tracks postgres/postgresql.conf"),
        "{refused}"
    );
}
