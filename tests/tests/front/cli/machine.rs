//! `up` with everything that it starts, and commands that find it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_tests::harness::{Repository, Spawned, Terminal, binary, until_blocking};
use serde_json::Value;

pub struct Machine {
    pub root: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::Builder::new().prefix("ralph-up-").tempdir().unwrap();
        // Postgres runs as another user when the test is root.
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { root }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary("ralph-coordinator"));
        command
            .args(args)
            .current_dir(self.root.path())
            .env("RALPH_DATA", self.at("data"))
            .env_remove("DATABASE_URL")
            .env_remove("NATS_URL");
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--output", "json"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {stderr}"))
    }

    /// Starts `up` and waits until it says that it is ready.
    pub fn up(&self, name: &str) -> Spawned {
        self.up_with(name, |_| {})
    }

    /// Like [`Self::up`], after `change` has changed the command.
    pub fn up_with(&self, name: &str, change: impl FnOnce(&mut Command)) -> Spawned {
        let agent = binary("ralph-scripted-agent");
        let agent = agent.to_str().unwrap();
        let mut command = self.command(&["up", "--workers", "1", "--agent", agent, "--drain-timeout", "1s"]);
        change(&mut command);
        let mut up = Spawned::start(&mut command, &self.at(name)).unwrap();
        until_blocking("`up` to be ready", || {
            assert!(up.try_wait().is_none(), "{}", up.output());
            up.output().contains("ready in ")
        });
        up
    }

    /// Processes that have our data folder in their arguments or environment.
    fn processes(&self) -> Vec<String> {
        let mark = self.at("data").to_string_lossy().into_owned();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let read = |file: &str| {
                let bytes = std::fs::read(entry.path().join(file)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).replace('\0', " ")
            };
            let arguments = read("cmdline");
            if arguments.contains(&mark) || read("environ").contains(&mark) {
                found.push(format!("{} {arguments}", entry.file_name().to_string_lossy()));
            }
        }
        found
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn one_machine_completes_a_feature_and_survives_a_kill() {
    let machine = Machine::new();
    let repository = Repository::create(machine.root.path(), &[("README.md", "begin\n")]).unwrap();
    let repo = repository.path().to_str().unwrap().to_owned();
    write(
        &machine.at("tasks.yaml"),
        "- key: a\n  title: Write a file\n  description: |\n    @say Hello from the agent.\n    @write a.txt <<END\n    one\n    END\n    @done\n\
         - key: b\n  title: Write another\n  after: [a]\n  description: |\n    @write b.txt <<END\n    two\n    END\n    @done\n",
    );
    let mut up = machine.up("up-1.log");
    let second = machine.run(&["up"]);
    assert_eq!(second.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert!(
        stderr.contains("in use by process") && stderr.contains("--data"),
        "{stderr}"
    );

    let submit = [
        "submit",
        "feature",
        "files",
        "--tasks",
        "tasks.yaml",
        "--repo",
        &repo,
        "--no-verify",
    ];
    let waited = machine.run(&[&submit[..], &["--wait", "--output", "json"]].concat());
    let stderr = String::from_utf8_lossy(&waited.stderr);
    assert_eq!(waited.status.code(), Some(0), "{stderr}");
    let progress: Value = serde_json::from_slice(&waited.stdout).unwrap();
    assert_eq!(progress["feature"]["run"]["outcome"], "complete");
    assert_eq!(
        repository.git(&["show", "ralph/files:b.txt"]).unwrap().trim(),
        "two"
    );

    let tasks = machine.json(&["task", "list", "files"]);
    let id = tasks["items"][0]["id"].as_str().unwrap();
    for args in [
        vec!["logs", id],
        vec!["logs", id, "--follow"],
        vec!["logs", id, "--raw"],
    ] {
        let logs = machine.run(&args);
        assert!(
            String::from_utf8_lossy(&logs.stdout).contains("Hello from the agent."),
            "{args:?}"
        );
    }
    let context = machine.run(&["context", id]);
    assert!(String::from_utf8_lossy(&context.stdout).contains(&format!("ID: {id}")));
    let again = machine.run(&submit);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("stands already"));

    // A kill during a session leaves no process, and the next `up` continues.
    write(
        &machine.at("slow.yaml"),
        "- key: a\n  title: Take a while\n  description: |\n    @say It takes a while.\n    @on-attempt 1 @wait 600000\n    @write c.txt <<END\n    three\n    END\n    @done\n",
    );
    let slow = [
        "submit",
        "feature",
        "slow",
        "--tasks",
        "slow.yaml",
        "--repo",
        &repo,
        "--no-verify",
        "--backoff",
        "0",
    ];
    assert!(machine.run(&slow).status.success());
    // A dispatch that no worker has got is assigned again as the same attempt, so wait for the agent's work.
    until_blocking("the session", || {
        let tasks = machine.json(&["task", "list", "slow"]);
        let logs = machine.run(&["logs", tasks["items"][0]["id"].as_str().unwrap()]);
        String::from_utf8_lossy(&logs.stdout).contains("It takes a while.")
    });
    up.kill();
    until_blocking("the end of its processes", || machine.processes().is_empty());
    let orphaned = machine.run(&["status"]);
    assert_eq!(orphaned.status.code(), Some(1));
    let mut up = machine.up("up-2.log");
    let waited = machine.run(&["feature", "wait", "slow"]);
    assert_eq!(
        waited.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&waited.stderr)
    );
    assert_eq!(
        repository.git(&["show", "ralph/slow:c.txt"]).unwrap().trim(),
        "three"
    );

    up.signal(Signal::SIGTERM);
    until_blocking("`up` to end", || up.try_wait().is_some());
    assert!(up.try_wait().unwrap().success(), "{}", up.output());
    assert_eq!(machine.processes(), Vec::<String>::new());
    let stopped = machine.run(&["status"]);
    assert!(String::from_utf8_lossy(&stopped.stderr).contains("nothing runs in the data folder"));
}

#[test]
fn an_interrupted_wait_leaves_the_run_going() {
    let machine = Machine::new();
    write(
        &machine.at("tasks.yaml"),
        "- key: a\n  title: Wait for feedback\n  description: |\n    @on-attempt 1 @wait 600000\n    @done\n",
    );
    let mut up = machine.up("up.log");
    let submit = [
        "submit",
        "feature",
        "f",
        "--tasks",
        "tasks.yaml",
        "--no-repo",
        "--no-verify",
        "--backoff",
        "0",
        "--wait",
    ];
    let waiting = machine
        .command(&submit)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until_blocking("the session", || {
        machine.json(&["status"])["sessions"]
            .as_array()
            .is_some_and(|s| !s.is_empty())
    });
    kill(Pid::from_raw(waiting.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = waiting.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("the run goes on"), "{stderr}");

    let shown = machine.json(&["feature", "show", "f"]);
    assert_eq!(shown["feature"]["status"], "running");
    let task = shown["sessions"][0]["task"].as_str().unwrap();
    let interrupted = machine.run(&["task", "interrupt", task, "--feedback", "don't wait"]);
    assert!(
        interrupted.status.success(),
        "{}",
        String::from_utf8_lossy(&interrupted.stderr)
    );
    let waited = machine.run(&["feature", "wait", "f"]);
    assert_eq!(
        waited.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&waited.stderr)
    );
    let context = machine.run(&["context", task]);
    assert!(
        String::from_utf8_lossy(&context.stdout).contains("don't wait"),
        "the next attempt has the feedback"
    );
    up.signal(Signal::SIGTERM);
    until_blocking("`up` to end", || up.try_wait().is_some());
}

#[test]
fn a_drained_worker_stays_away_until_the_next_up() {
    let machine = Machine::new();
    let mut up = machine.up("up-1.log");
    let drained = machine.run(&["worker", "drain", "worker-1"]);
    let stderr = String::from_utf8_lossy(&drained.stderr);
    assert!(drained.status.success(), "{stderr}");
    until_blocking("the worker's end", || {
        assert!(up.try_wait().is_none(), "{}", up.output());
        let output = up.output();
        let log = std::fs::read_to_string(machine.at("data/logs/worker-1.log"));
        let ended = output.contains("worker-1 was drained");
        ended
            .then_some(())
            .ok_or_else(|| format!("{output}\n{}", log.unwrap_or_default()))
    });
    assert!(
        !up.output().contains("starting worker-1 again"),
        "{}",
        up.output()
    );
    up.signal(Signal::SIGTERM);
    until_blocking("`up` to end", || up.try_wait().is_some());
    assert!(up.try_wait().unwrap().success(), "{}", up.output());

    let mut up = machine.up("up-2.log");
    let workers = machine.json(&["worker", "list"]);
    assert_eq!(workers["items"][0]["status"], "ready", "{workers}");
    up.signal(Signal::SIGTERM);
    until_blocking("`up` to end", || up.try_wait().is_some());
}

#[test]
fn a_feature_conversation_uses_the_agent_that_up_was_given() {
    let machine = Machine::new();
    let mut up = machine.up("up-1.log");
    let draft = machine.run(&["feature", "create", "todo", "--description", "Todo", "--no-repo"]);
    assert!(
        draft.status.success(),
        "{}",
        String::from_utf8_lossy(&draft.stderr)
    );
    let mut talk = machine.command(&["feature", "spec", "todo"]);
    // The folder of the conversation must hold no data of Ralph.
    std::fs::create_dir(machine.at("idea")).unwrap();
    talk.current_dir(machine.at("idea"))
        .env_remove("RALPH_AGENT")
        .env("RALPH_PASS_ENV", "RALPH_SCRIPT")
        .env("RALPH_SCRIPT", "@say It is the scripted agent.");
    let mut terminal = Terminal::open(&talk);
    terminal.until("It is the scripted agent.");
    terminal.until("› ");
    terminal.press("\u{4}");
    let (_, shown) = terminal.end();
    // The copy that the agent read is gone with the conversation.
    assert!(!shown.contains("to go on: "), "{shown}");
    up.signal(Signal::SIGTERM);
    until_blocking("`up` to stop", || up.try_wait().is_some());
}

#[test]
fn up_in_the_background_shows_its_settings_until_down_stops_it() {
    let machine = Machine::new();
    let command = |args: &[&str]| {
        let mut command = machine.command(args);
        // Some programs would read this path as a list of folders.
        command.env("RALPH_DATA", machine.at("a,b"));
        command
    };
    let mut up = command(&["up", "--detach", "--workers", "0"]);
    up.env("RALPH_LEASE_MS", "21000")
        .env("RALPH_NOTIFY_SECRET", "nobody-sees-this");
    let up = up.output().unwrap();
    let stderr = String::from_utf8_lossy(&up.stderr);
    assert!(
        up.status.success() && stderr.contains("`ralph-coordinator down` stops it"),
        "{stderr}"
    );

    let config = |args: &[&str]| {
        let output = command(&[&["config", "--output", "json"], args].concat())
            .output()
            .unwrap();
        let page: Value = serde_json::from_slice(&output.stdout).unwrap();
        let items = page["items"].as_array().unwrap().clone();
        let value = |key: &str| items.iter().find(|item| item["key"] == key).unwrap()["value"].clone();
        [value("lease_ms"), value("notify.secret")]
    };
    assert_eq!(config(&[]), [Value::from(21_000), Value::from("(hidden)")]);
    assert_eq!(config(&["--local"]), [Value::from(20_000), Value::Null]);

    for stops in [true, false] {
        let down = command(&["down"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&down.stderr);
        assert!(
            down.status.success() && stderr.contains("nothing runs") != stops,
            "{stderr}"
        );
        let status = command(&["status"]).output().unwrap();
        assert!(!status.status.success());
    }
}
