//! The whole system through its command line: `up`, a worker's `.ralph.toml` with two agents, `submit
//! --wait`.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_tests::harness::{Repository, binary};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::model::Model;
use super::real::Real;

const GRAPH: &str = "- key: a\n  title: A\n  description: |\n    @write a.txt a\n    @done\n\
                     - key: b\n  title: B\n  after: [a]\n  agent: opencode\n  description: |\n    \
                     @run cat a.txt a.txt > b.txt\n    @done\n";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real agents: make test-agents"]
async fn a_feature_is_built_by_two_agents_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    traversable(folder.path());
    let model = Model::start().await;
    let repository = Repository::create(folder.path(), &[("README", "hello\n")]).unwrap();
    let claude = Real::Claude.table("agent", &model, folder.path());
    let open_code = Real::OpenCode.table("agents.opencode", &model, folder.path());
    std::fs::write(folder.path().join(".ralph.toml"), claude + &open_code).unwrap();
    std::fs::write(folder.path().join("tasks.yaml"), GRAPH).unwrap();
    let coordinator = |arguments: &[&str]| {
        let mut command = Command::new(binary("ralph-coordinator"));
        command
            .args(arguments)
            .current_dir(folder.path())
            .env("RALPH_CONFIG", folder.path().join(".ralph.toml"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        for name in [
            "DATABASE_URL",
            "NATS_URL",
            "RALPH_URL",
            "RALPH_TOKEN",
            "RALPH_DATA",
            "RALPH_AGENT",
        ] {
            command.env_remove(name);
        }
        command
    };
    let mut up = coordinator(&["up", "--workers", "1"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(up.stderr.take().unwrap()).lines();
    let mut log = String::new();
    while !log.contains("ready") {
        let line = lines.next_line().await.unwrap();
        log += &line.unwrap_or_else(|| panic!("`up` ended:\n{log}"));
        log.push('\n');
    }
    let listening = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let repo = repository.path().display().to_string();
    let submit = [
        "submit",
        "feature",
        "both",
        "--tasks",
        "tasks.yaml",
        "--repo",
        &repo,
        "--base",
        "main",
        "--no-verify",
        "--wait",
    ];
    let output = coordinator(&submit).output().await.unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_eq!(repository.file("ralph/both", "b.txt").unwrap(), "a\na\n");
    let pid = i32::try_from(up.id().unwrap()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    assert!(up.wait().await.unwrap().success());
    listening.await.unwrap();
}

/// If the test is root, the database server runs as another user.
fn traversable(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}
