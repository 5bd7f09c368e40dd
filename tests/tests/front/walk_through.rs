//! Runs docs/walk-through.md as its reader would, and compares what is shown.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ralph_tests::harness::{Repository, Spawned, binary, until_blocking};

/// Stands for what differs each time: within a line for any text, alone on a line for any lines.
const ANYTHING: &str = "…";

/// One thing to do on the page.
#[derive(Debug, PartialEq)]
enum Step {
    /// Wait until this succeeds.
    Until(String),
    /// Run this; it shows these lines and exits so.
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

/// Whether the lines are as the page has them.
fn fits(expected: &[String], lines: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == ANYTHING => (0..=lines.len()).any(|at| fits(rest, &lines[at..])),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, more)| fits_line(first, line) && fits(rest, more)),
    }
}

fn fits_line(expected: &str, line: &str) -> bool {
    let mut parts = expected.split(ANYTHING);
    let Some(mut left) = parts.next().and_then(|begin| line.strip_prefix(begin)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(end) = parts.pop() else {
        return left.is_empty();
    };
    for part in parts {
        let Some((_, rest)) = left.split_once(part) else {
            return false;
        };
        left = rest;
    }
    left.ends_with(end)
}

#[test]
fn lines_fit_as_a_reader_would_say() {
    let fits = |expected: &str, shown: &str| {
        let expected: Vec<String> = expected.lines().map(str::to_owned).collect();
        fits(&expected, &shown.lines().collect::<Vec<_>>())
    };
    assert!(fits("a\n…\nz", "a\nz") && fits("a\n…\nz", "a\nb\nc\nz"));
    assert!(fits("run-… is…over", "run-1 is all over") && fits("…done…", "it is done"));
    assert!(!fits("a\n…\nz", "a\nb") && !fits("a", "a\nb") && !fits("…x", "y") && !fits("a", "ab"));
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
        // The project of a person who works on one machine is the repository itself.
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
fn the_walk_through_shows_what_it_says() {
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
                    fits(&shown, &lines) && output.status.code() == Some(code),
                    "$ {command}\nexits with {:?} and shows\n{text}\nbut the page says {code} and\n{}\n{}",
                    output.status.code(),
                    shown.join("\n"),
                    place_log(&place),
                );
            }
        }
    }
    drop(up);
}

fn place_log(place: &Place) -> String {
    std::fs::read_to_string(place.root.path().join("up.log")).unwrap_or_default()
}
