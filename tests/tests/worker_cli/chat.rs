//! `ralph-worker chat`, through a pipe and at a terminal.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_tests::harness::Terminal;

use super::bench::{AGENT, Bench};

const CONFIGURATION: &str = "[agent]\ncommand = \"{agent} --keep-sessions\"\n[agents.gone]\ncommand = \"no-such-agent\"\n\
                             [agents.plain]\ncommand = \"{agent}\"\n";

/// A prompt for the scripted agent, as it is typed: all lines but the last end with a backslash.
fn prompt(directives: &[&str]) -> String {
    let head = ["## Assigned Task", "ID: t-0123456789ab", "Description:"];
    let lines: Vec<&str> = head.iter().chain(directives).copied().collect();
    lines.join("\\\n") + "\n"
}

fn chat(bench: &Bench, more: &[&str]) -> Command {
    std::fs::create_dir_all(bench.path("project")).unwrap();
    bench.worker(&[&["chat", "project"], more].concat())
}

fn piped(bench: &Bench, more: &[&str], input: &str) -> (ExitStatus, String) {
    let mut child = chat(bench, more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stdout).unwrap())
}

#[test]
fn prompts_from_a_pipe_are_answered_turn_after_turn() {
    let bench = Bench::new(CONFIGURATION);
    let input = prompt(&["@say one", "@write a.txt x"]) + "\n" + &prompt(&["@read a.txt", "@say two"]);
    let (status, shown) = piped(&bench, &[], &input);
    assert!(status.success(), "{shown}");
    let (one, two) = (shown.find("\none\n"), shown.find("\ntwo\n"));
    assert!(one.is_some() && one < two, "{shown}");
    assert!(shown.contains("▸ "), "{shown}");
    assert!(shown.contains("to go on: ralph-worker chat "), "{shown}");
    assert_eq!(
        std::fs::read_to_string(bench.path("project/a.txt")).unwrap(),
        "x\n"
    );
}

#[test]
fn a_failed_turn_is_shown_and_the_session_continues() {
    let bench = Bench::new(CONFIGURATION);
    let input = prompt(&["@error -32603 it broke"]) + &prompt(&["@say better"]);
    let (status, shown) = piped(&bench, &[], &input);
    assert!(status.success(), "{shown}");
    assert!(
        shown.contains("it broke") && shown.contains("\nbetter\n"),
        "{shown}"
    );
}

#[test]
fn a_read_only_session_writes_nothing() {
    let bench = Bench::new(CONFIGURATION);
    let input = prompt(&["@run touch a", "@say over"]);
    let (_, shown) = piped(&bench, &["--read-only"], &input);
    assert!(shown.contains("\nover\n"), "{shown}");
    assert!(!bench.path("project/a").exists());
}

#[test]
fn a_folder_above_a_data_folder_is_refused_with_advice() {
    let bench = Bench::new(CONFIGURATION);
    let data = bench.path("project/.ralph");
    std::fs::create_dir_all(data.join("secrets")).unwrap();
    std::fs::write(data.join("layout.json"), "{}").unwrap();
    let refused = chat(&bench, &["--read-only"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(
        words.contains("project/.ralph, where Ralph keeps passwords") && words.contains("--data"),
        "{words}"
    );
    let (status, shown) = piped(&bench, &["--sandbox", "none"], &prompt(&["@say over"]));
    assert!(status.success() && shown.contains("\nover\n"), "{shown}");
}

#[test]
fn an_agent_that_cannot_start_gives_an_error_with_advice() {
    let bench = Bench::new(CONFIGURATION);
    let (status, shown) = piped(&bench, &["--name", "gone"], "hello\n");
    assert_eq!(status.code(), Some(1));
    assert!(
        shown.contains("`no-such-agent`") && shown.contains("ralph-worker doctor"),
        "{shown}"
    );
    let unknown = chat(&bench, &["--name", "nobody"]).output().unwrap();
    let words = String::from_utf8(unknown.stderr).unwrap();
    assert!(words.contains("only default, gone, plain"), "{words}");
}

#[test]
fn the_shown_command_resumes_the_session() {
    let bench = Bench::new("");
    let named = "[agents.keeper]\ncommand = \"{agent} --keep-sessions\"\n".replace("{agent}", AGENT);
    std::fs::write(bench.path("other.toml"), named).unwrap();
    let flags = ["--name", "keeper", "--config", "other.toml"];
    let (_, shown) = piped(&bench, &flags, &prompt(&["@say one"]));
    let (_, line) = shown.rsplit_once("to go on: ralph-worker ").expect(&shown);
    assert!(
        line.starts_with("chat project --name keeper --config other.toml --resume "),
        "{line}"
    );
    let arguments = shell_words::split(line.trim()).unwrap();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut child = bench
        .worker(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = prompt(&["@say two"]);
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && shown.contains("\ntwo\n"), "{shown}");
    assert!(!shown.contains("can't be resumed"), "{shown}");
    // With `--once` the folder is deleted afterwards, so no command is shown.
    let (_, shown) = piped(
        &bench,
        &[&flags[..], &["--once"]].concat(),
        &prompt(&["@say one"]),
    );
    assert!(!shown.contains("to go on: "), "{shown}");
}

#[test]
fn a_session_that_the_agent_cannot_resume_is_reported() {
    let bench = Bench::new(CONFIGURATION);
    let (status, shown) = piped(
        &bench,
        &["--name", "plain", "--resume", "s-1"],
        &prompt(&["@say new"]),
    );
    assert!(status.success(), "{shown}");
    assert!(
        shown.contains("s-1 can't be resumed") && shown.contains("\nnew\n"),
        "{shown}"
    );
    assert!(!shown.contains("to go on: "), "{shown}");
}

#[test]
fn a_terminated_chat_stops_its_agent() {
    let bench = Bench::new(CONFIGURATION);
    let mut child = chat(&bench, &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = child.stdin.take().unwrap();
    let input = prompt(&["@run echo $PPID > pid", "@say begun", "@silent"]);
    keys.write_all(input.as_bytes()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "begun"));
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    let agent = std::fs::read_to_string(bench.path("project/pid")).unwrap();
    assert!(!std::path::Path::new("/proc").join(agent.trim()).exists());
}

#[test]
fn the_third_ctrl_c_stops_the_agent() {
    let bench = Bench::new(CONFIGURATION);
    let mut child = chat(&bench, &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = child.stdin.take().unwrap();
    let stubborn = [
        "@ignore-eof",
        "@ignore-term",
        "@run echo $PPID > pid",
        "@say begun",
        "@hang",
    ];
    keys.write_all(prompt(&stubborn).as_bytes()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for shown in ["begun", "cancelling the turn", "leaving"] {
        assert!(lines.any(|line| line.unwrap().contains(shown)), "{shown}");
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    }
    let status = child.wait().unwrap();
    let agent = std::fs::read_to_string(bench.path("project/pid")).unwrap();
    let is_running = std::path::Path::new("/proc").join(agent.trim()).exists();
    if is_running {
        let _ = kill(Pid::from_raw(agent.trim().parse().unwrap()), Signal::SIGKILL);
    }
    assert!(!is_running);
    assert_eq!(status.code(), Some(130));
}

fn at_terminal(bench: &Bench) -> Terminal {
    Terminal::open(&chat(bench, &[]))
}

/// Types a prompt. Between two lines the editor doesn't own the terminal, and input would be echoed twice. So
/// each line waits for the editor.
fn enter(terminal: &mut Terminal, prompt: &str) {
    let mut lines = prompt.lines().peekable();
    while let Some(line) = lines.next() {
        terminal.press(line);
        terminal.until(line);
        terminal.press("\r");
        terminal.until(if lines.peek().is_some() { "… " } else { "\n" });
    }
}

fn leave(mut terminal: Terminal) {
    terminal.press("\u{4}");
    terminal.until("to go on:");
    let (status, shown) = terminal.end();
    assert!(status.success(), "{status}: {shown}");
}

#[test]
fn permissions_are_asked_at_the_terminal() {
    let bench = Bench::new(CONFIGURATION);
    let mut terminal = at_terminal(&bench);
    terminal.until("› ");
    enter(&mut terminal, &prompt(&["@ask a thing"]));
    terminal.until("May it? a thing");
    terminal.until("1-2: ");
    terminal.press("7\r");
    terminal.until("1-2: ");
    terminal.press("2\r");
    terminal.until("permission a thing: reject");
    terminal.until("› ");
    leave(terminal);
}

#[test]
fn ctrl_c_cancels_the_turn_and_not_the_session() {
    let bench = Bench::new(CONFIGURATION);
    let mut terminal = at_terminal(&bench);
    terminal.until("› ");
    enter(&mut terminal, &prompt(&["@say begun", "@silent"]));
    terminal.until("begun\r\n");
    terminal.press("\u{3}");
    terminal.until("cancelling the turn");
    terminal.until("the turn ended: cancelled");
    terminal.until("› ");
    enter(&mut terminal, &prompt(&["@say still here"]));
    terminal.until("still here\r\n");
    terminal.until("› ");
    leave(terminal);
}
