//! Follows docs/walk-through.md as a reader would, and compares the output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ralph_tests::harness::{Repository, Spawned, binary, until_blocking};

/// Placeholder for output that varies: any text within a line, or any lines when alone on a line.
const ANYTHING: &str = "…";

#[derive(Debug, PartialEq)]
enum Step {
    /// Wait until this command succeeds.
    Until(String),
    /// Run this command; its output and exit code must match.
    Run {
        command: String,
        shown: Vec<String>,
        code: i32,
    },
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if let Some(command) = line.strip_prefix("<!-- until: ") {
            steps.push(Step::Until(command.trim_end_matches(" -->").to_owned()));
        } else if line.starts_with("```") {
            inside = line == "```console";
        } else if !inside {
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step::Run {
                command: command.to_owned(),
                shown: Vec::new(),
                code: 0,
            });
        } else if let Some(Step::Run { shown, code, .. }) = steps.last_mut() {
            match line.strip_prefix("[exit code ") {
                Some(number) => *code = number.trim_end_matches(']').parse().unwrap(),
                None => shown.push(line.to_owned()),
            }
        }
    }
    steps
}

/// Whether the output matches the page.
fn matches(expected: &[String], lines: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == ANYTHING => (0..=lines.len()).any(|at| matches(rest, &lines[at..])),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, more)| matches_line(first, line) && matches(rest, more)),
    }
}

fn matches_line(expected: &str, line: &str) -> bool {
    let mut parts = expected.split(ANYTHING);
    let Some(mut rest_of_line) = parts.next().and_then(|begin| line.strip_prefix(begin)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(end) = parts.pop() else {
        return rest_of_line.is_empty();
    };
    for part in parts {
        let Some((_, rest)) = rest_of_line.split_once(part) else {
            return false;
        };
        rest_of_line = rest;
    }
    rest_of_line.ends_with(end)
}

#[test]
fn placeholders_match_any_text_or_any_lines() {
    let matches = |expected: &str, shown: &str| {
        let expected: Vec<String> = expected.lines().map(str::to_owned).collect();
        matches(&expected, &shown.lines().collect::<Vec<_>>())
    };
    assert!(matches("a\n…\nz", "a\nz") && matches("a\n…\nz", "a\nb\nc\nz"));
    assert!(matches("run-… is…over", "run-1 is all over") && matches("…done…", "it is done"));
    assert!(
        !matches("a\n…\nz", "a\nb") && !matches("a", "a\nb") && !matches("…x", "y") && !matches("a", "ab")
    );
}

struct Place {
    root: tempfile::TempDir,
    project: PathBuf,
}

impl Place {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::Builder::new().prefix("ralph-walk-").tempdir().unwrap();
        // Postgres runs as another user when the test is root.
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let repository = Repository::create(
            root.path(),
            &[
                ("greet.sh", "echo Hello\n"),
                (
                    "tests.sh",
                    "set -e\ntest \"$(sh greet.sh)\" = Hello\nfor test in tests/*.sh; do . \"$test\"; done\n",
                ),
                ("tests/none.sh", "true\n"),
            ],
        )
        .unwrap();
        let project = root.path().join("project");
        let (from, to) = (repository.path().to_str().unwrap(), project.to_str().unwrap());
        let clone = Command::new("git")
            .args(["clone", "--quiet", from, to])
            .status()
            .unwrap();
        assert!(clone.success());
        // On a single machine, the project is the repository itself, without a remote.
        let own = Command::new("git")
            .args(["remote", "remove", "origin"])
            .current_dir(&project)
            .status();
        assert!(own.unwrap().success());
        let script = docs().join("walk-through.script");
        let configuration = format!(
            "[agent]\ncommand = \"{}\"\nenv = {{ RALPH_SCRIPT = \"file:{}\" }}\n",
            binary("ralph-scripted-agent").display(),
            script.display(),
        );
        std::fs::write(root.path().join(".ralph.toml"), configuration).unwrap();
        Self { root, project }
    }

    fn equip(&self, command: &mut Command) {
        let programs = binary("ralph-coordinator").parent().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap();
        command
            .current_dir(&self.project)
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("RALPH_BACKOFF", "0s")
            .env("RALPH_CONFIG", self.root.path().join(".ralph.toml"))
            .env("RALPH_DATA", self.root.path().join("data"))
            .env_remove("DATABASE_URL")
            .env_remove("NATS_URL");
    }

    fn shell(&self, line: &str) -> Output {
        let mut command = Command::new("sh");
        self.equip(command.args(["-c", &format!("{{ {line}\n}} 2>&1")]));
        command.output().unwrap()
    }

    fn up(&self) -> Spawned {
        let mut command = Command::new(binary("ralph-coordinator"));
        self.equip(command.args(["up", "--workers", "2", "--drain-timeout", "1s"]));
        let mut up = Spawned::start(&mut command, &self.root.path().join("up.log")).unwrap();
        until_blocking("`up` to be ready", || {
            assert!(up.try_wait().is_none(), "{}", up.output());
            up.output().contains("ready in ")
        });
        up
    }
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .canonicalize()
        .unwrap()
}

#[test]
fn the_walk_through_shows_the_real_output() {
    let page = std::fs::read_to_string(docs().join("walk-through.md")).unwrap();
    let place = Place::new();
    let up = place.up();
    let steps = steps(&page);
    assert!(steps.len() > 10, "{steps:?}");
    for step in steps {
        match step {
            Step::Until(command) => until_blocking(&command, || place.shell(&command).status.success()),
            Step::Run { command, shown, code } => {
                let output = place.shell(&command);
                let text = String::from_utf8(output.stdout).unwrap();
                let lines: Vec<&str> = text.lines().collect();
                assert!(
                    matches(&shown, &lines) && output.status.code() == Some(code),
                    "$ {command}\nexits with {:?} and shows\n{text}\nbut the page says {code} and\n{}\n{}",
                    output.status.code(),
                    shown.join("\n"),
                    up.output(),
                );
            }
        }
    }
    drop(up);
}
