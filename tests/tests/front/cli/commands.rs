//! Commands that need no coordinator, or fail before they reach one.

use std::path::Path;
use std::process::{Command, Output};

use ralph_tests::harness::{binary, configure};

fn ralph(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder)
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap());
    command.output().unwrap()
}

fn git(folder: &Path, args: &[&str]) {
    let status = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=T", "-c", "user.email=t@localhost"])
        .args(args)
        .status()
        .unwrap();
    assert!(status.success(), "git {args:?}");
}

fn check(folder: &Path, args: &[&str], code: i32, words: &[&str]) {
    let output = ralph(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{args:?} should say `{word}`: {stderr}");
    }
    assert!(output.stdout.is_empty(), "standard output is for results");
}

/// Nothing listens there: a command that gets as far as a request fails with another exit code.
const NOBODY: [&str; 4] = ["--url", "http://127.0.0.1:9", "--token", "x"];

#[test]
fn an_impossible_submission_is_refused_before_anything_is_sent() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    std::fs::write(at("tasks.yaml"), "- {key: a, title: A}\n").unwrap();
    std::fs::write(
        at("circle.yaml"),
        "- {key: a, title: A, after: [b]}\n- {key: b, title: B, after: [a]}\n",
    )
    .unwrap();
    for name in ["plain", "empty", "full", "full/inside"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    git(&at("empty"), &["init", "-q", "-b", "main"]);
    git(&at("full"), &["init", "-q", "-b", "main"]);
    git(&at("full"), &["commit", "-q", "--allow-empty", "-m", "begin"]);
    git(&at("full"), &["branch", "ralph/taken"]);

    let submit = |name: &str, more: &[&str], code: i32, words: &[&str]| {
        let mut args = vec!["submit", "feature", name];
        args.extend(NOBODY);
        args.extend(more);
        check(root.path(), &args, code, words);
    };
    let tasks = ["--tasks", "tasks.yaml"];
    submit("Bad Name", &tasks, 2, &["a-z"]);
    submit("x", &["--tasks", "none.yaml"], 2, &["none.yaml"]);
    submit("x", &[], 2, &["--tasks", "--draft"]);
    submit("x", &tasks, 2, &["no git repository", "--repo", "--no-repo"]);
    submit(
        "x",
        &[&tasks[..], &["--repo", "plain"]].concat(),
        2,
        &["no git repository"],
    );
    submit(
        "x",
        &[&tasks[..], &["--repo", "none"]].concat(),
        2,
        &["there is no repository none"],
    );
    submit(
        "x",
        &[&tasks[..], &["--repo", "empty"]].concat(),
        2,
        &["no commit"],
    );
    submit(
        "x",
        &[&tasks[..], &["--repo", "full/inside"]].concat(),
        2,
        &["a folder of"],
    );
    submit(
        "x",
        &[&tasks[..], &["--repo", "full", "--base", "nope"]].concat(),
        2,
        &["nope", "--base"],
    );
    submit(
        "x",
        &[&tasks[..], &["--repo", "full", "--branch", "a b"]].concat(),
        2,
        &["branch"],
    );
    submit("x", &[&tasks[..], &["--max-time", "soon"]].concat(), 2, &["90s"]);
    submit(
        "x",
        &[&tasks[..], &["--repo", "full"]].concat(),
        1,
        &["no coordinator answers", "ralph-coordinator up"],
    );
    submit(
        "taken",
        &[&tasks[..], &["--repo", "full"]].concat(),
        1,
        &["no coordinator answers"],
    );
    check(
        root.path(),
        &["submit", "feature", "x", "--tasks", "circle.yaml", "--dry-run"],
        2,
        &["circle.yaml", "a", "b"],
    );
    check(root.path(), &["status"], 1, &["ralph-coordinator up", "--url"]);
}

#[test]
fn an_incomplete_command_gets_the_missing_arguments_named() {
    let root = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], words: &[&str]| {
        check(root.path(), &[args, &NOBODY].concat(), 2, words);
    };
    refused(&["task", "retry"], &["FEATURE/KEY", "--all-of"]);
    refused(&["memory", "prune"], &["--unused-days"]);
    refused(
        &["feature", "create", "x", "--wait"],
        &["`feature run NAME --wait`"],
    );
}

#[test]
fn a_specification_is_not_read_through_a_link() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    std::fs::write(at("key"), "a secret\n").unwrap();
    std::fs::create_dir_all(at(".ralph/features/due")).unwrap();
    let spec = at(".ralph/features/due/spec.md");
    std::os::unix::fs::symlink(at("key"), &spec).unwrap();
    let submit = [&["submit", "feature", "due", "--no-repo"][..], &NOBODY].concat();
    check(
        root.path(),
        &submit,
        2,
        &["features/due/spec.md is a link", "--spec"],
    );

    std::fs::remove_file(&spec).unwrap();
    std::fs::write(&spec, "Items may have a due date.\n").unwrap();
    check(root.path(), &submit, 1, &["no coordinator answers"]);
    std::fs::rename(at(".ralph"), at("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", at(".ralph")).unwrap();
    check(root.path(), &submit, 2, &[".ralph is a link"]);
}

#[test]
fn a_purge_needs_confirmation() {
    let root = tempfile::tempdir().unwrap();
    let purge = ["memory", "purge", "l-9f2c"];
    let nobody = [&purge[..], &NOBODY].concat();
    check(root.path(), &nobody, 2, &["l-9f2c", "--yes"]);
    let sent = [&nobody[..], &["--yes"]].concat();
    check(root.path(), &sent, 1, &["no coordinator answers"]);
}

#[test]
fn a_dry_run_draws_the_graph_without_a_coordinator() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(
        root.path().join("tasks.yaml"),
        "- {key: a, title: First}\n- {key: b, title: Second, after: [a]}\n",
    )
    .unwrap();
    let output = ralph(
        root.path(),
        &["submit", "feature", "x", "--tasks", "tasks.yaml", "--dry-run"],
    );
    let drawn = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success()
            && drawn.contains("b: Second  ← a")
            && drawn.contains("cost and time: unknown yet, no coordinator tells of earlier tasks"),
        "{drawn}"
    );
    // JSON output has the same facts.
    let output = ralph(
        root.path(),
        &[
            "submit",
            "feature",
            "x",
            "--tasks",
            "tasks.yaml",
            "--dry-run",
            "-o",
            "json",
        ],
    );
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (
            &document["waves"],
            &document["graph"][1]["key"],
            &document["graph"][1]["after"][0],
            &document["graph"][1]["wave"]
        ),
        (&2.into(), &"b".into(), &"a".into(), &2.into()),
        "{document}"
    );
    // A dry run refuses what a submission would refuse.
    let dry_run = |flag: &str, words: &str| {
        let args = [
            "submit",
            "feature",
            "x",
            "--tasks",
            "tasks.yaml",
            "--dry-run",
            flag,
            "foo",
        ];
        check(root.path(), &args, 2, &["foo", words]);
    };
    dry_run("--approve", "spec, plan, tasks");
    dry_run(
        "--model-strategy",
        "fixed, cost-optimized, escalate, plan-then-execute, adaptive",
    );
}

#[test]
fn an_invalid_limit_in_the_file_is_refused_first() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("tasks.yaml"), "- {key: a, title: A}\n").unwrap();
    let file = root.path().join(".ralph.toml");
    let feature = ["submit", "feature", "x", "--tasks", "tasks.yaml", "--no-repo"];
    let dry_run = [&feature[..], &["--dry-run"]].concat();
    let submit = [&feature[..], &NOBODY].concat();
    let task = [&["submit", "task", "X", "--no-repo"], &NOBODY[..]].concat();
    for (limit, key, to_do) in [
        ("max_time = 'soon'", "max_time", "write 90s, 15m, 24h"),
        ("max_cost = -1.5", "max_cost", "0 for no limit"),
    ] {
        configure(root.path(), &format!("[limits]\n{limit}\n"));
        let place = format!("{}: `[limits] {key}`", file.canonicalize().unwrap().display());
        for command in [&dry_run, &submit, &task] {
            check(root.path(), command, 2, &[&place, to_do]);
        }
    }
    configure(root.path(), "[limits]\nmax_parallel = 0\n");
    for command in [&dry_run, &submit] {
        check(
            root.path(),
            command,
            2,
            &["`[limits] max_parallel`", "give 1 or more"],
        );
    }
    let fixed = [
        &dry_run[..],
        &["--max-parallel", "1", "--model-strategy", "fixed"],
    ]
    .concat();
    check(root.path(), &fixed, 2, &["needs a model"]);
}

#[test]
fn a_merge_into_the_checked_out_branch_gives_a_warning() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path();
    git(at, &["init", "-q", "-b", "main"]);
    git(at, &["commit", "-q", "--allow-empty", "-m", "Begin"]);
    std::fs::write(at.join("tasks.yaml"), "- {key: a, title: First}\n").unwrap();
    let output_of = |args: &[&str]| {
        let output = ralph(at, args);
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap()
    };
    let submit = ["submit", "feature", "x", "--tasks", "tasks.yaml"];
    let dry_run = |more: &[&str]| output_of(&[&submit[..], &["--dry-run"], more].concat());
    let follows = "`main` is checked out in";
    assert!(dry_run(&["--merge", "ff"]).contains(follows));
    for more in [
        &[][..],
        &["--merge", "command"],
        &["--merge", "ff", "--base", "other"],
    ] {
        assert!(!dry_run(more).contains(follows), "{more:?}");
    }
    // The warning comes before anything is sent.
    let nobody = ["--url", "http://127.0.0.1:9", "--token", "t", "--merge", "squash"];
    let text = output_of(&[&submit[..], &nobody[..]].concat());
    assert!(text.contains(follows), "{text}");
    git(at, &["config", "receive.denyCurrentBranch", "refuse"]);
    let text = dry_run(&["--merge", "ff"]);
    assert!(text.contains("=refuse there refuses the merge"), "{text}");

    assert!(!output_of(&["doctor"]).contains(follows));
    configure(at, "[workspace]\nmerge = 'squash'\n");
    assert!(output_of(&["doctor"]).contains(follows));
    assert!(dry_run(&[]).contains("refuses the merge"));
}

#[test]
fn a_submission_without_a_gate_hints_at_the_repositorys_own_tests() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path();
    git(at, &["init", "-q", "-b", "main"]);
    git(at, &["commit", "-q", "--allow-empty", "-m", "Begin"]);
    std::fs::write(at.join("tasks.yaml"), "- {key: a, title: First}\n").unwrap();
    let output_of = |what: &[&str], more: &[&str]| {
        let output = ralph(at, &[what, &NOBODY, more].concat());
        String::from_utf8(output.stderr).unwrap()
    };
    let feature = ["submit", "feature", "x", "--tasks", "tasks.yaml"];
    let task = ["submit", "task", "Do it"];
    assert!(
        !output_of(&feature, &[]).contains("hint: no command"),
        "the repository has no tests"
    );
    std::fs::write(at.join("Makefile"), "test:\n\ttrue\n").unwrap();
    for what in [&feature[..], &task] {
        let text = output_of(what, &[]);
        assert!(text.contains("give one, as --gate \"make test\""), "{text}");
        for more in [&["--gate", "true"][..], &["--no-repo"]] {
            assert!(!output_of(what, more).contains("hint: no command"), "{more:?}");
        }
    }
}

#[test]
fn config_shows_each_value_with_its_source() {
    let root = tempfile::tempdir().unwrap();
    configure(
        root.path(),
        "[limits]\nmax_cost = 7.5\nidle_time = '3m'\n[notify]\nurl = 'https://x/hidden-part'\n[agents.fast]\ncommand = 'fast'\n",
    );
    let config = |args: &[&str]| {
        let mut command = Command::new(binary("ralph-coordinator"));
        command
            .arg("config")
            .args(args)
            .args(["--output", "json"])
            .current_dir(root.path())
            .env_clear()
            .env("RALPH_IDLE_TIME", "4m")
            .env("RALPH_TOKEN", "hidden-part");
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains("hidden-part"), "{text}");
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["items"].clone()
    };
    let all = config(&["--max-time", "2h"]);
    let check = |key: &str, value: serde_json::Value, source: &str, place: &str| {
        let found = all.as_array().unwrap().iter().find(|item| item["key"] == key);
        let found = found.unwrap_or_else(|| panic!("no {key}"));
        assert_eq!(
            (&found["value"], found["source"].as_str()),
            (&value, Some(source)),
            "{key}"
        );
        assert!(found["place"].as_str().unwrap_or("").ends_with(place), "{found}");
    };
    check("limits.max_cost", 7.5.into(), "file", "/.ralph.toml");
    check("limits.idle_time", "4m".into(), "environment", "RALPH_IDLE_TIME");
    check("limits.max_time", "2h".into(), "flag", "--max-time");
    check("limits.session_time", "60m".into(), "default", "");
    check("agents.fast.command", "fast".into(), "file", "/.ralph.toml");
    check("token", "(hidden)".into(), "environment", "RALPH_TOKEN");
    check("notify.url", "(hidden)".into(), "file", "/.ralph.toml");
    assert_eq!(
        config(&["limits.max_cost", "agent"]).as_array().unwrap().len(),
        17
    );
}

#[test]
fn the_manual_has_a_page_for_each_command_and_shells_complete_them() {
    let root = tempfile::tempdir().unwrap();
    let output = ralph(root.path(), &["man", "pages"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let page = |name: &str| std::fs::read_to_string(root.path().join("pages").join(name)).unwrap();
    assert!(page("ralph-coordinator.1").contains("Exit codes"));
    assert!(page("ralph-coordinator-task-deps-add.1").contains("todo/ui"));
    assert!(page("ralph-coordinator-submit-feature.1").contains("max"));
    for shell in ["bash", "zsh", "fish"] {
        let output = ralph(root.path(), &["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("COMPLETE"), "{shell}");
    }
    let mut asked = Command::new(binary("ralph-coordinator"));
    asked
        .args(["--", "ralph-coordinator", "feature", "ch"])
        .env("COMPLETE", "fish");
    let offered = String::from_utf8(asked.output().unwrap().stdout).unwrap();
    assert!(offered.starts_with("checkout"), "{offered}");
    let mut worker = Command::new(binary("ralph-worker"));
    let script = worker.args(["completions", "bash"]).output().unwrap().stdout;
    assert!(String::from_utf8(script).unwrap().contains("ralph-worker"));
}

#[test]
fn an_unknown_config_key_is_refused() {
    let root = tempfile::tempdir().unwrap();
    check(
        root.path(),
        &["config", "limits.colour"],
        2,
        &["limits.colour", "`ralph config`"],
    );
}

#[test]
fn environment_values_apply_and_stay_out_of_usage_texts() {
    let root = tempfile::tempdir().unwrap();
    let check = |args: &[&str], code: i32, words: &str| {
        let mut command = Command::new(binary("ralph-coordinator"));
        command
            .args(args)
            .current_dir(root.path())
            .env_clear()
            .env("RALPH_TOKEN", "t")
            .env("RALPH_DATA", "there");
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(words), "{text}");
        text
    };
    check(&["status"], 1, "nothing runs in the data folder there");
    let usage = check(&["task", "show"], 2, "<TASK>");
    assert!(!usage.contains("--data") && !usage.contains("--token"), "{usage}");
}

#[test]
fn a_given_data_folder_wins_over_the_environments_coordinator() {
    let root = tempfile::tempdir().unwrap();
    let status = |args: &[&str]| {
        let mut command = Command::new(binary("ralph-coordinator"));
        command
            .args(args)
            .current_dir(root.path())
            .env_clear()
            .env("RALPH_URL", "http://127.0.0.1:1")
            .env("RALPH_TOKEN", "t");
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let theirs = status(&["status"]);
    assert!(theirs.contains("127.0.0.1:1"), "{theirs}");
    for args in [["status", "--data", "here"], ["--data", "here", "status"]] {
        let text = status(&args);
        assert!(text.contains("nothing runs in the data folder here"), "{text}");
    }
    let both = status(&[
        "status",
        "--data",
        "here",
        "--url",
        "http://127.0.0.1:2",
        "--token",
        "t",
    ]);
    assert!(both.contains("127.0.0.1:2"), "{both}");
}
