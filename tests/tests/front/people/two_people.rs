//! Two people change the same text at once: the second one gets the difference and keeps their own text.

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
    _world: World,
    api: Api,
    folder: tempfile::TempDir,
}

impl Desk {
    /// Starts with a draft `f` that has a task `a`.
    async fn start() -> Self {
        let world = World::start().await.unwrap();
        let api = Api::start(&world).await;
        let tasks = "- {key: a, title: A, description: As it was}";
        let body = json!({"name": "f", "draft": true, "tasks": {"source": "t", "text": tasks}});
        let (status, answer) = api.post("/features", &body).await;
        assert_eq!(status.as_u16(), 201, "{answer}");
        let folder = tempfile::tempdir().unwrap();
        Self {
            _world: world,
            api,
            folder,
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn run(&self, line: &str) -> (Option<i32>, String) {
        let args = shell_words::split(line).unwrap();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = command(&self.api, self.folder.path(), &args).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    fn check(&self, line: &str, code: i32, words: &[&str]) -> String {
        let (found, text) = self.run(line);
        assert!(
            found == Some(code) && words.iter().all(|word| text.contains(word)),
            "`{line}`: {found:?}, not {words:?}: {text}"
        );
        text
    }

    async fn texts(&self) -> Value {
        self.api.get("/features/f/texts").await.1
    }

    /// Runs a command with an editor that first runs `meanwhile` as another person, then writes `text`.
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

    /// Contents of the files that `text` names.
    fn saved_texts(&self, text: &str) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        text.split_whitespace()
            .map(|word| word.trim_end_matches([',', ':', '.']))
            .filter(|word| word.starts_with(&folder) && word.contains("/ralph-"))
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect()
    }
}

fn version_in(text: &str) -> String {
    let after = text.split("--replaces ").nth(1).unwrap();
    after.chars().take_while(char::is_ascii_hexdigit).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_from_a_file_replaces_only_the_version_that_was_read() {
    let desk = Desk::start().await;
    desk.write("one.md", "By one.\n");
    desk.write("two.md", "By two.\n");
    desk.check("feature spec f --file one.md", 0, &["the spec of f is stored"]);
    desk.check("feature spec f --file one.md", 0, &["nothing was changed"]);
    // A person who has not read the current text is asked; without a terminal, nothing is done.
    let text = desk.check(
        "feature spec f --file two.md",
        2,
        &["Replace the spec of f", "--yes"],
    );
    let first = version_in(&text);
    let shown = desk.check("feature spec f --show", 0, &["By one.", &first]);
    assert_eq!(version_in(&shown), first);
    // Both have read the same text; the first one stores theirs.
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
    assert_eq!(desk.saved_texts(&lost), ["By two.\n"]);
    assert_eq!(desk.texts().await["spec"], "By two.\n");
    let second = version_in(&lost);
    desk.check(
        &format!("feature spec f --file three.md --replaces {second}"),
        0,
        &["is stored"],
    );
    let text = desk.check(
        "feature spec f --file one.md --yes",
        0,
        &["what it replaces is kept in"],
    );
    assert_eq!(desk.saved_texts(&text), ["By three.\n"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_with_an_outdated_text_loses_nothing() {
    let desk = Desk::start().await;
    desk.write("one.md", "By one.\n");
    desk.write("two.md", "By two.\n");
    desk.check("feature plan f --file one.md", 0, &["the plan of f is stored"]);
    let (code, text) = desk.in_the_editor(
        &["feature", "plan", "f", "--edit"],
        "feature plan f --file two.md --yes",
        "By three.\\n",
    );
    assert_eq!(code, Some(1), "{text}");
    for words in ["changed by somebody else", "-By two.", "+By three."] {
        assert!(text.contains(words), "no {words}: {text}");
    }
    let saved = desk.saved_texts(&text);
    assert!(
        saved.contains(&"By three.\n".to_owned()) && saved.contains(&"By two.\n".to_owned()),
        "{saved:?}: {text}"
    );
    assert_eq!(desk.texts().await["plan"], "By two.\n");

    let (code, text) = desk.in_the_editor(
        &["task", "edit", "f/a"],
        "task edit f/a --description 'By two' --yes",
        "By three",
    );
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("changed by somebody else"), "{text}");
    assert!(desk.saved_texts(&text).contains(&"By three".to_owned()), "{text}");
    let (_, task) = desk.api.get("/tasks/f%2Fa").await;
    assert_eq!(task["description"], "By two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_a_task_shows_changes_made_with_flags() {
    let desk = Desk::start().await;
    let text = desk.check(
        "task edit f/a --description Other",
        2,
        &["Replace the description of f/a"],
    );
    let read = version_in(&text);
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
}
