//! `feature spec` and `feature plan` at a terminal: a person and an agent write the text together.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ralph_tests::harness::{World, binary};
use serde_json::json;

use crate::caller::{ADMIN, Api};

/// A command at a terminal of its own, which `script` makes.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    shown: String,
    seen: usize,
}

impl Terminal {
    fn open(world: &World, api: &Api, args: &str, script: &str) -> Self {
        let agent = binary("ralph-scripted-agent");
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command"])
            .arg(format!("exec {} {args}", binary("ralph-coordinator").display()))
            .arg("/dev/null")
            .current_dir(world.dir())
            .env("SHELL", "/bin/sh")
            .env("HOME", world.dir())
            .env("TERM", "xterm")
            .env("GIT_CEILING_DIRECTORIES", world.dir())
            .env("RALPH_URL", &api.url)
            .env("RALPH_TOKEN", ADMIN)
            .env("RALPH_AGENT", agent)
            .env("RALPH_PASS_ENV", "RALPH_SCRIPT")
            .env("RALPH_SCRIPT", script)
            .env("RALPH_SANDBOX", "none")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            keys: child.stdin.take().unwrap(),
            screen: child.stdout.take().unwrap(),
            child,
            shown: String::new(),
            seen: 0,
        }
    }

    /// Reads on until this is shown.
    fn until(&mut self, words: &str) {
        let mut buffer = [0; 4096];
        loop {
            if let Some(at) = self.shown[self.seen..].find(words) {
                self.seen += at + words.len();
                return;
            }
            let count = self.screen.read(&mut buffer).unwrap();
            assert!(count > 0, "no `{words}` in {}", self.shown);
            self.shown += &String::from_utf8_lossy(&buffer[..count]);
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Leaves the chat; gives the exit code.
    fn leave(mut self) -> (Option<i32>, String) {
        self.press("\u{4}");
        let mut rest = Vec::new();
        let _ = self.screen.read_to_end(&mut rest);
        self.shown += &String::from_utf8_lossy(&rest);
        (self.child.wait().unwrap().code(), self.shown)
    }
}

const SCRIPT: &str = "@if-prompt-has When the person agrees : @say Shall it greet in German?\n\
                      @if-prompt-has Greets everybody : @say The idea was known.\n\
                      @if-prompt-has both please : @say <document>\n\
                      @if-prompt-has both please : @say # It greets in both\n\
                      @if-prompt-has both please : @say </document>\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_is_written_in_a_conversation_and_stored_when_the_person_leaves() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let (status, _) = api
        .post(
            "/features",
            &json!({"name": "f", "description": "Greets everybody", "draft": true}),
        )
        .await;
    assert_eq!(status.as_u16(), 201);
    for which in ["spec", "plan"] {
        let mut terminal = Terminal::open(&world, &api, &format!("feature {which} f"), SCRIPT);
        terminal.until("Shall it greet in German?");
        terminal.until("The idea was known.");
        terminal.until("› ");
        terminal.press("both please");
        terminal.until("both please");
        terminal.press("\r");
        terminal.until("</document>");
        terminal.until("› ");
        let (code, shown) = tokio::task::spawn_blocking(|| terminal.leave()).await.unwrap();
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains(&format!("the {which} of f is stored")), "{shown}");
        let (_, texts) = api.get("/features/f/texts").await;
        assert_eq!(texts[which], "# It greets in both", "{texts}");
    }

    // Who leaves before there is a text changes nothing.
    let mut terminal = Terminal::open(&world, &api, "feature spec f", "@say Hm.");
    terminal.until("Hm.");
    terminal.until("› ");
    let (code, shown) = tokio::task::spawn_blocking(|| terminal.leave()).await.unwrap();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("nothing was stored"), "{shown}");
    let shown = Terminal::open(&world, &api, "feature spec f --show", "")
        .leave()
        .1;
    assert!(shown.contains("# It greets in both"), "{shown}");
    api.stop().await;
    world.stop().await;
}
