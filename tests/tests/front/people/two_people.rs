//! Two people who change the same text at once: the second is told, sees how they differ, and keeps their words.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use ralph_tests::harness::{Terminal, World, binary};
use serde_json::{Value, json};

use crate::caller::{ADMIN, Api};

fn command(api: &Api, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args)
        .current_dir(folder)
        .env_remove("PAGER")
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .env("RALPH_URL", &api.url)
        .env("RALPH_TOKEN", ADMIN);
    command
}

struct Desk {
    world: World,
    api: Api,
    folder: tempfile::TempDir,
}

impl Desk {
    /// The feature `f` is a draft with a task `a`.
    async fn start() -> Self {
        let world = World::start().await.unwrap();
        let api = Api::start(&world).await;
        let tasks = "- {key: a, title: A, description: As it was}";
        let body = json!({"name": "f", "draft": true, "tasks": {"source": "t", "text": tasks}});
        let (status, answer) = api.post("/features", &body).await;
        assert_eq!(status.as_u16(), 201, "{answer}");
        let folder = tempfile::tempdir().unwrap();
        Self { world, api, folder }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn run(&self, line: &str) -> (Option<i32>, String) {
        let args = shell_words::split(line).unwrap();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = command(&self.api, self.folder.path(), &args).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    fn check(&self, line: &str, code: i32, words: &[&str]) -> String {
        let (found, said) = self.run(line);
        assert!(
            found == Some(code) && words.iter().all(|word| said.contains(word)),
            "`{line}`: {found:?}, not {words:?}: {said}"
        );
        said
    }

    async fn texts(&self) -> Value {
        self.api.get("/features/f/texts").await.1
    }

    /// A command with an editor, which first does `meanwhile` as another person, then writes `text`.
    fn in_the_editor(&self, args: &[&str], meanwhile: &str, text: &str) -> (Option<i32>, String) {
        let editor = self.folder.path().join("editor");
        let ralph = binary("ralph-coordinator");
        let script = format!(
            "#!/bin/sh\n'{}' {meanwhile} >/dev/null || exit 1\nprintf '{text}' >\"$1\"\n",
            ralph.display()
        );
        std::fs::write(&editor, script).unwrap();
        std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = command(&self.api, self.folder.path(), args);
        command.env("EDITOR", &editor).env_remove("VISUAL");
        let (status, shown) = Terminal::open(&command).end();
        (status.code(), shown.replace("\r\n", "\n"))
    }

    /// The texts that the files hold which `said` names.
    fn kept(&self, said: &str) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        said.split_whitespace()
            .map(|word| word.trim_end_matches([',', ':', '.']))
            .filter(|word| word.starts_with(&folder) && word.contains("/ralph-"))
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect()
    }

    async fn stop(self) {
        self.api.stop().await;
        self.world.stop().await;
    }
}

fn version_in(said: &str) -> String {
    let after = said.split("--replaces ").nth(1).unwrap();
    after.chars().take_while(char::is_ascii_hexdigit).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_from_a_file_replaces_only_what_was_read() {
    let desk = Desk::start().await;
    desk.write("one.md", "By one.\n");
    desk.write("two.md", "By two.\n");
    desk.check("feature spec f --file one.md", 0, &["the spec of f is stored"]);
    desk.check("feature spec f --file one.md", 0, &["nothing was changed"]);
    // Whoever didn't read what stands is asked, and where nobody can be asked, nothing is done.
    let said = desk.check(
        "feature spec f --file two.md",
        2,
        &["Replace the spec of f", "--yes"],
    );
    let first = version_in(&said);
    let shown = desk.check("feature spec f --show", 0, &["By one.", &first]);
    assert_eq!(version_in(&shown), first);
    // Both read the same; the first of them stores.
    desk.check(
        &format!("feature spec f --file two.md --replaces {first}"),
        0,
        &["is stored"],
    );
    desk.write("three.md", "By three.\n");
    let lost = desk.check(
        &format!("feature spec f --file three.md --replaces {first}"),
        1,
        &["changed by somebody else", "three.md", "-By two.", "+By three."],
    );
    assert_eq!(desk.kept(&lost), ["By two.\n"]);
    assert_eq!(desk.texts().await["spec"], "By two.\n");
    let second = version_in(&lost);
    desk.check(
        &format!("feature spec f --file three.md --replaces {second}"),
        0,
        &["is stored"],
    );
    let said = desk.check(
        "feature spec f --file one.md --yes",
        0,
        &["what it replaces is kept in"],
    );
    assert_eq!(desk.kept(&said), ["By three.\n"]);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_that_was_open_too_long_loses_nothing() {
    let desk = Desk::start().await;
    desk.write("one.md", "By one.\n");
    desk.write("two.md", "By two.\n");
    desk.check("feature plan f --file one.md", 0, &["the plan of f is stored"]);
    let (code, said) = desk.in_the_editor(
        &["feature", "plan", "f", "--edit"],
        "feature plan f --file two.md --yes",
        "By three.\\n",
    );
    assert_eq!(code, Some(1), "{said}");
    for words in ["changed by somebody else", "-By two.", "+By three."] {
        assert!(said.contains(words), "no {words}: {said}");
    }
    let kept = desk.kept(&said);
    assert!(
        kept.contains(&"By three.\n".to_owned()) && kept.contains(&"By two.\n".to_owned()),
        "{kept:?}: {said}"
    );
    assert_eq!(desk.texts().await["plan"], "By two.\n");

    let (code, said) = desk.in_the_editor(
        &["task", "edit", "f/a"],
        "task edit f/a --description 'By two' --yes",
        "By three",
    );
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("changed by somebody else"), "{said}");
    assert!(desk.kept(&said).contains(&"By three".to_owned()), "{said}");
    let (_, task) = desk.api.get("/tasks/f%2Fa").await;
    assert_eq!(task["description"], "By two");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_flags_change_of_a_task_is_in_its_log() {
    let desk = Desk::start().await;
    let said = desk.check(
        "task edit f/a --description Other",
        2,
        &["Replace the description of f/a"],
    );
    let read = version_in(&said);
    desk.check(
        &format!("task edit f/a --description Other --replaces {read}"),
        0,
        &["edited f/a"],
    );
    desk.check(
        &format!("task edit f/a --description Third --replaces {read}"),
        1,
        &["changed by somebody else"],
    );
    desk.check("task edit f/a --title B --priority -3", 0, &["edited f/a"]);
    let log = desk.check("task log f/a --output json", 0, &[]);
    for words in [
        "description, which was:\\nAs it was",
        "title from `A` to `B`",
        "priority from `0` to `-3`",
    ] {
        assert!(log.contains(words), "no {words} in {log}");
    }
    let (_, task) = desk.api.get("/tasks/f%2Fa").await;
    assert_eq!(
        (&task["description"], &task["title"]),
        (&json!("Other"), &json!("B"))
    );
    desk.stop().await;
}
