//! Repositories of several languages with their usual test command as gate and no configuration: the tools of
//! the user's shell work in sessions and gates.

use std::process::Command;

use nix::sys::signal::Signal;
use ralph_tests::harness::{Repository, until_blocking};

use crate::cli::machine::Machine;

/// Toolchain variables that the test runner sets. Without them, the toolchain is found as for an ordinary
/// user.
const OF_THE_TEST: &[&str] = &["RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "CARGO_HOME", "CARGO"];

/// Lands three tasks, one after the other; each also runs the gate's command itself.
fn three_tasks_land(name: &str, gate: &str, files: &[(&str, &str)], outputs: &str) {
    let machine = Machine::new();
    let files: Vec<(&str, &str)> = files.iter().copied().chain([(".gitignore", outputs)]).collect();
    let repository = Repository::create(machine.root.path(), &files).unwrap();
    let task = |key: &str, after: &str| {
        format!(
            "- key: {key}\n  title: Write {key}\n{after}  description: |\n    @run {gate} && echo {key} > {key}.txt\n    @done\n"
        )
    };
    let tasks = [
        task("a", ""),
        task("b", "  after: [a]\n"),
        task("c", "  after: [b]\n"),
    ];
    std::fs::write(machine.at("tasks.yaml"), tasks.concat()).unwrap();
    let mut up = machine.up_with("up.log", |command| {
        for variable in OF_THE_TEST {
            command.env_remove(variable);
        }
    });
    let repo = repository.path().to_str().unwrap();
    let mut submit = vec!["submit", "feature", name, "--tasks", "tasks.yaml", "--repo", repo];
    submit.extend([
        "--gate",
        gate,
        "--no-verify",
        "--backoff",
        "0",
        "--max-retries",
        "0",
        "--wait",
    ]);
    let waited = machine.run(&submit);
    let stderr = String::from_utf8_lossy(&waited.stderr).into_owned();
    let log = || std::fs::read_to_string(machine.at("data/logs/worker-1.log")).unwrap_or_default();
    assert_eq!(waited.status.code(), Some(0), "{stderr}\n{}", log());
    assert_eq!(repository.landed(&format!("ralph/{name}")).unwrap().len(), 3);
    let listed = repository.git(&["ls-tree", "--name-only", &format!("ralph/{name}")]);
    let listed = listed.unwrap();
    assert!(
        ["a.txt", "b.txt", "c.txt"]
            .iter()
            .all(|file| listed.contains(file)),
        "{listed}"
    );
    up.signal(Signal::SIGTERM);
    until_blocking("`up` to end", || up.try_wait().is_some());
}

/// Whether this machine has a program; prints a note if not, since the test is then skipped.
fn is_here(program: &str, argument: &str) -> bool {
    let is_here = Command::new(program).arg(argument).output();
    let is_here = is_here.is_ok_and(|output| output.status.success());
    if !is_here {
        eprintln!("SKIPPED: `{program}` is not installed here, so its repository is not tried");
    }
    is_here
}

#[test]
fn a_rust_repository_lands_with_cargo_test_as_its_gate() {
    three_tasks_land(
        "rust",
        "cargo test --quiet",
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
            ),
            (
                "src/lib.rs",
                "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n",
            ),
        ],
        "target\n",
    );
}

#[test]
fn a_node_repository_lands_with_npm_test_as_its_gate() {
    if is_here("npm", "--version") {
        three_tasks_land(
            "node",
            "npm test",
            &[
                (
                    "package.json",
                    "{\"name\": \"small\", \"scripts\": {\"test\": \"node --test\"}}\n",
                ),
                (
                    "small.test.js",
                    "require('node:test')('adds', () => require('node:assert').equal(1 + 1, 2));\n",
                ),
            ],
            "node_modules\n",
        );
    }
}

#[test]
fn a_python_repository_lands_with_a_virtual_environment_in_its_gate() {
    if is_here("python3", "--version") {
        three_tasks_land(
            "python",
            "python3 -m venv --without-pip .venv && .venv/bin/python -m unittest -q",
            &[(
                "test_small.py",
                "import unittest\n\nclass Small(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(1 + 1, 2)\n",
            )],
            ".venv\n__pycache__\n",
        );
    }
}

#[test]
fn a_python_repository_lands_with_uv_in_its_gate() {
    if is_here("uv", "--version") {
        three_tasks_land(
            "uv",
            "uv run --no-project --offline python -m unittest -q",
            &[(
                "test_small.py",
                "import unittest\n\nclass Small(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(1 + 1, 2)\n",
            )],
            ".venv\n__pycache__\n",
        );
    }
}

#[test]
fn a_go_repository_lands_with_go_test_as_its_gate() {
    if is_here("go", "version") {
        three_tasks_land(
            "go",
            "go test ./...",
            &[
                ("go.mod", "module example.org/small\n\ngo 1.19\n"),
                (
                    "small_test.go",
                    "package small\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) {\n\tif 1+1 != 2 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n",
                ),
            ],
            "none\n",
        );
    }
}
