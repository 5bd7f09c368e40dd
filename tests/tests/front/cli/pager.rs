//! Long output goes through a pager at a terminal, and is never lost.

use std::path::Path;
use std::process::Command;

use ralph_tests::harness::{Terminal, World, binary};
use serde_json::json;

use crate::caller::{ADMIN, Api};

const LINES: usize = 10_000;
const FIRST: &str = "Line 0 of many";
const LAST: &str = "Line 9999 of many";

/// A feature with a specification larger than a screen and a pipe's buffer, and one with a short
/// specification.
struct Scene {
    world: World,
    api: Api,
}

impl Scene {
    async fn start() -> Self {
        let world = World::calm().await.unwrap();
        let api = Api::start(&world).await;
        let long: String = (0..LINES).map(|n| format!("Line {n} of many\n")).collect();
        for (name, spec) in [("long", long.as_str()), ("short", "Alone")] {
            let body = json!({"name": name, "spec": spec, "draft": true});
            let (status, answer) = api.post("/features", &body).await;
            assert_eq!(status.as_u16(), 201, "{answer}");
        }
        Self { world, api }
    }

    /// A command without this environment's pagers.
    fn command(&self, args: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = command(self.world.dir(), args, variables);
        command.env("RALPH_URL", &self.api.url).env("RALPH_TOKEN", ADMIN);
        command
    }

    fn show(&self, more: &[&str], variables: &[(&str, &str)]) -> Terminal {
        let args = [&["feature", "spec", "long", "--show"], more].concat();
        Terminal::open(&self.command(&args, variables))
    }
}

fn command(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args)
        .current_dir(folder)
        .env("HOME", folder)
        .env("GIT_CEILING_DIRECTORIES", folder);
    for name in ["PAGER", "RALPH_PAGER", "NO_PAGER", "LESS"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn less_shows_a_screen_at_a_time_and_may_quit_early() {
    let scene = Scene::start().await;
    // The pager gets Ctrl+C and all keys after it.
    let mut terminal = scene.show(&[], &[]);
    terminal.until(FIRST);
    terminal.until("\n:");
    terminal.press("\u{3}");
    // After an interrupt between its prompt and its read, less drops the next key. So press one that redraws
    // the screen.
    terminal.press("\u{c}");
    terminal.until("\n:");
    terminal.press("G");
    terminal.until(LAST);
    terminal.press("q");
    let (status, shown) = terminal.end();
    assert!(status.success(), "{status}");
    assert!(!shown.contains("Line 5000 of many"));

    // Quit before less has read half of the text.
    let mut terminal = scene.show(&[], &[]);
    terminal.until(FIRST);
    terminal.until("\n:");
    terminal.press("q");
    let (status, shown) = terminal.end();
    assert!(status.success() && !shown.contains(LAST), "{status}: {shown}");

    // Text that fits on the screen asks for no key.
    let short = scene.command(&["feature", "spec", "short", "--show"], &[]);
    let (status, shown) = Terminal::open(&short).end();
    assert!(status.success() && shown.contains("Alone"), "{status}: {shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_text_cannot_control_the_terminal() {
    let scene = Scene::start().await;
    let wild = "Look \u{1b}]0;elsewhere\u{7}here";
    let body = json!({"name": "wild", "spec": wild, "draft": true});
    let (status, answer) = scene.api.post("/features", &body).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    let mut show = scene.command(&["feature", "spec", "wild", "--show", "--no-pager"], &[]);
    let (status, shown) = Terminal::open(&show).end();
    assert!(status.success(), "{status}: {shown}");
    assert!(
        shown.contains("Look here") && !shown.contains("\u{1b}]0;"),
        "{shown:?}"
    );
    // A file gets the stored text.
    let stored = String::from_utf8(show.output().unwrap().stdout).unwrap();
    assert_eq!(stored, format!("{wild}\n"));
}

/// A terminal gets links and the bell; a dumb terminal, a pipe and `NO_COLOR` get plain text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_terminals_get_links_and_the_bell() {
    let scene = Scene::start().await;
    let repo = json!({
        "address": "https://github.com/acme/todo.git",
        "id": "github.com/acme/todo",
        "base_ref": "main",
        "base_commit": "a".repeat(40),
        "branch": "ralph/linked",
    });
    let body = json!({"name": "linked", "draft": true, "repo": repo});
    let (status, answer) = scene.api.post("/features", &body).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    let link = "\u{1b}]8;;https://github.com/acme/todo\u{1b}\\";
    let show =
        |variables: &[(&str, &str)]| scene.command(&["feature", "show", "linked", "--no-pager"], variables);
    let (status, shown) = Terminal::open(&show(&[])).end();
    assert!(status.success() && shown.contains(link), "{status}: {shown:?}");
    for variables in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
        let (status, shown) = Terminal::open(&show(&variables)).end();
        assert!(status.success() && shown.contains("todo"), "{status}: {shown:?}");
        assert!(!shown.contains('\u{1b}'), "{variables:?}: {shown:?}");
    }
    let piped = String::from_utf8(show(&[]).output().unwrap().stdout).unwrap();
    assert!(piped.contains("todo") && !piped.contains('\u{1b}'), "{piped:?}");

    let wait = |variables: &[(&str, &str)]| scene.command(&["feature", "wait", "short"], variables);
    let (_, shown) = Terminal::open(&wait(&[])).end();
    assert!(
        shown.contains("has not run yet") && shown.contains('\u{7}'),
        "{shown:?}"
    );
    let (_, shown) = Terminal::open(&wait(&[("TERM", "dumb")])).end();
    assert!(
        shown.contains("has not run yet") && !shown.contains('\u{7}'),
        "{shown:?}"
    );
    let piped = wait(&[]).output().unwrap();
    assert!(
        ![piped.stdout, piped.stderr].concat().contains(&7),
        "a pipe has no bell"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_environment_and_a_flag_choose_the_pager() {
    let scene = Scene::start().await;
    let shown = |more: &[&str], variables: &[(&str, &str)]| {
        let (status, shown) = scene.show(more, variables).end();
        assert!(status.success(), "{more:?} {variables:?}: {status}");
        assert!(shown.contains(LAST), "{more:?} {variables:?}: {shown:.2000}");
        shown
    };
    let mark = "sed s/^/%/";
    assert!(shown(&[], &[("PAGER", mark)]).contains("\n%"));
    let other = [("PAGER", "no-such-pager"), ("RALPH_PAGER", mark)];
    assert!(shown(&[], &other).contains("\n%"));
    for (more, variables) in [
        (&["--no-pager"][..], &[("PAGER", mark)][..]),
        (&["--output", "json"], &[("PAGER", mark)]),
        (&[], &[("PAGER", mark), ("NO_PAGER", "1")]),
        (&[], &[("PAGER", mark), ("RALPH_PAGER", "")]),
        (&[], &[("PAGER", "cat")]),
        (&[], &[("PAGER", mark), ("TERM", "dumb")]),
    ] {
        assert!(!shown(more, variables).contains('%'), "{more:?} {variables:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pager_that_fails_loses_nothing() {
    let scene = Scene::start().await;
    for (pager, words) in [
        ("no-such-pager", "the pager `no-such-pager` failed"),
        ("exit 3", "the pager `exit 3` failed"),
        ("head -n 1; kill -9 $$", "failed"),
    ] {
        let (status, shown) = scene.show(&[], &[("PAGER", pager)]).end();
        assert!(status.success(), "{pager}: {status}");
        assert!(shown.contains(words), "{pager}: {shown:.1000}");
        assert!(shown.contains(FIRST) && shown.contains(LAST), "{pager}");
    }
    // A missing pager that nobody asked for gives no error.
    let bare = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/sh", bare.path().join("sh")).unwrap();
    let path = format!("PATH={}", bare.path().display());
    let inner = scene.command(&["feature", "spec", "long", "--show"], &[]);
    let mut without = Command::new("env");
    without.arg(path).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => without.env(name, value),
            None => without.env_remove(name),
        };
    }
    let (status, shown) = Terminal::open(&without).end();
    assert!(status.success() && shown.contains(LAST), "{status}");
    assert!(!shown.contains("the pager"), "{shown:.1000}");
}

#[test]
fn a_command_that_fails_keeps_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let pager = [("PAGER", "sed s/^/%/")];
    let (status, shown) = Terminal::open(&command(folder.path(), &["config", "no.such.key"], &pager)).end();
    assert_eq!(status.code(), Some(2), "{shown}");
    let (status, shown) = Terminal::open(&command(folder.path(), &["config", "limits"], &pager)).end();
    assert!(status.success() && shown.contains("%limits."), "{shown}");
}
