//! What commands find here and in the folders above, and whose it has to be.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use ralph_tests::harness::binary;

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9";
const NOBODY: u32 = 65534;

/// Runs a program below `folder`; gives what it says.
fn said(folder: &Path, program: &str, args: &[&str], token: Option<&str>) -> String {
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

/// A data folder with an address in it, and its lock, which nobody holds yet.
fn published(folder: &Path) -> File {
    let data = folder.join(".ralph");
    fs::create_dir(&data).unwrap();
    let told = serde_json::json!({"url": NOWHERE, "token": "theirs"});
    fs::write(data.join("api.json"), told.to_string()).unwrap();
    fs::set_permissions(data.join("api.json"), Permissions::from_mode(0o600)).unwrap();
    File::create(data.join("lock")).unwrap()
}

#[test]
fn an_address_is_found_only_where_an_up_of_this_user_runs() {
    let root = tempfile::tempdir().unwrap();
    let lock = published(root.path());
    let status = || said(root.path(), "ralph-coordinator", &["status"], None);
    // As it comes with a clone, or stays behind when an `up` is killed.
    let left = status();
    assert!(left.contains("found no running coordinator"), "{left}");
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
fn a_token_that_is_told_goes_to_no_address_that_is_only_found() {
    let root = tempfile::tempdir().unwrap();
    let lock = published(root.path());
    lock.lock().unwrap();
    let refused = said(root.path(), "ralph-coordinator", &["status"], Some("mine"));
    assert!(
        refused.contains("set RALPH_URL") && !refused.contains(NOWHERE),
        "{refused}"
    );
    // A folder that is named is as good as an address.
    let data = root.path().join(".ralph");
    let named = ["status", "--data", data.to_str().unwrap(), "--token", "mine"];
    let used = said(root.path(), "ralph-coordinator", &named, None);
    assert!(used.contains(NOWHERE), "{used}");
}

#[test]
fn configuration_of_another_user_above_is_not_obeyed() {
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
        let refused = said(root.path(), program, args, None);
        let words = ["is another user's", file.to_str().unwrap()];
        assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
        assert!(!refused.contains("their-program"), "{refused}");
    }
    let named = ["doctor", "--sandbox", "none", "--config", file.to_str().unwrap()];
    let used = said(root.path(), "ralph-worker", &named, None);
    assert!(!used.contains("is another user's"), "{used}");
}
