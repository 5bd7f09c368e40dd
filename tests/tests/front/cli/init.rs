//! `init` with the real program: it writes what is missing and leaves the rest alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ralph_tests::harness::binary;

fn ralph(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder);
    command.output().unwrap()
}

/// Sets up the folder; gives the lines of the output.
fn init(folder: &Path) -> Vec<String> {
    let output = ralph(folder, &["init"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    let shown = String::from_utf8(output.stdout).unwrap();
    shown.lines().map(str::to_owned).collect()
}

/// Every file with its bytes, every empty folder with none.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let inside = files(&path);
            if inside.is_empty() {
                found.insert(path, Vec::new());
            } else {
                found.extend(inside);
            }
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn an_empty_repository_is_set_up_once() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let done = init(folder);
    for (name, at) in [(".ralph.toml", 0), (".claude/skills", 1), (".gitignore", 2)] {
        assert!(
            folder.join(name).exists() && done[at].contains(name),
            "{name}: {done:?}"
        );
    }
    assert_eq!(done.len(), 3);
    let ignored = std::fs::read_to_string(folder.join(".gitignore")).unwrap();
    assert_eq!(ignored, ".ralph/*\n!.ralph/knowledge/\n!.ralph/features/\n");
    // The new file changes nothing: every key is commented out, and none gives a warning.
    let config = ralph(folder, &["config", "--output", "json"]);
    let stderr = String::from_utf8_lossy(&config.stderr);
    assert!(config.status.success() && stderr.is_empty(), "{stderr}");
    assert!(!String::from_utf8_lossy(&config.stdout).contains("\"source\": \"file\""));

    let before = files(folder);
    assert_eq!(init(folder), ["everything stands already"]);
    let printed = ralph(folder, &["init", "--output", "json"]).stdout;
    let printed: serde_json::Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!(printed["done"], serde_json::json!([]), "{printed}");
    assert_eq!(files(folder), before);
}

#[test]
fn existing_files_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    for (name, text) in [
        (".ralph.toml", "[limits]\nmax_cost = 3.5\n"),
        (".claude/skills/testing/SKILL.md", "Test it.\n"),
        (
            ".ralph/skills/other/SKILL.md",
            "Not moved: skills stand already.\n",
        ),
        (".gitignore", "/target\n.ralph/*"),
    ] {
        write(folder, name, text);
    }
    let mut expected = files(folder);
    let ignored = "/target\n.ralph/*\n!.ralph/knowledge/\n!.ralph/features/\n";
    expected.insert(folder.join(".gitignore"), ignored.into());
    let done = init(folder);
    assert!(done.len() == 1 && done[0].contains("added 2 lines"), "{done:?}");
    assert_eq!(files(folder), expected);
    assert_eq!(init(folder), ["everything stands already"]);
    assert_eq!(files(folder), expected);
}

#[test]
fn skills_of_an_older_setup_move_to_the_agents_folder() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    write(folder, ".ralph/skills/testing/SKILL.md", "Test it.\n");
    let done = init(folder);
    assert!(done[1].starts_with("moved "), "{done:?}");
    assert!(!folder.join(".ralph/skills").exists());
    let moved = std::fs::read_to_string(folder.join(".claude/skills/testing/SKILL.md")).unwrap();
    assert_eq!(moved, "Test it.\n");
}

#[test]
fn init_names_a_missing_folder_and_a_file_in_the_way() {
    let root = tempfile::tempdir().unwrap();
    let check = |folder: &str, code: i32, word: &str| {
        let output = ralph(root.path(), &["init", folder]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(code) && stderr.contains(word),
            "{folder}: {stderr}"
        );
    };
    check("nowhere", 2, "there is no folder nowhere");
    write(root.path(), "one/.claude", "a file");
    check("one", 1, "one/.claude");
    std::fs::create_dir_all(root.path().join("two/.gitignore")).unwrap();
    check("two", 1, "two/.gitignore");
}
