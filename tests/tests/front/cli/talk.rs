//! `feature spec` and `feature plan` at a terminal: a person and an agent write the text together.

use std::path::Path;
use std::process::Command;

use ralph_tests::harness::{Terminal, World, binary};
use serde_json::json;

use crate::caller::{ADMIN, Api};

fn open(world: &World, api: &Api, args: &str, script: &str) -> Terminal {
    open_in(world.dir(), world, api, args, script)
}

fn open_in(folder: &Path, world: &World, api: &Api, args: &str, script: &str) -> Terminal {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args.split(' '))
        .current_dir(folder)
        .env("HOME", world.dir())
        .env("GIT_CEILING_DIRECTORIES", world.dir())
        .env("RALPH_URL", &api.url)
        .env("RALPH_TOKEN", ADMIN)
        .env("RALPH_AGENT", binary("ralph-scripted-agent"))
        .env("RALPH_PASS_ENV", "RALPH_SCRIPT")
        .env("RALPH_SCRIPT", script)
        .env("RALPH_SANDBOX", "none");
    Terminal::open(&command)
}

/// Leaves the chat; gives the exit code and the output.
fn leave(mut terminal: Terminal) -> (Option<i32>, String) {
    terminal.press("\u{4}");
    let (status, shown) = terminal.end();
    (status.code(), shown)
}

const SCRIPT: &str = "@if-prompt-has When the person agrees : @say Shall it greet in German?\n\
                      @if-prompt-has Greets everybody : @say The idea was known.\n\
                      @if-prompt-has both please : @say <document>\n\
                      @if-prompt-has both please : @say # It greets in both\n\
                      @if-prompt-has both please : @say </document>\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_of_a_conversation_is_stored_when_the_person_leaves() {
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
        let mut terminal = open(&world, &api, &format!("feature {which} f"), SCRIPT);
        terminal.until("Shall it greet in German?");
        terminal.until("The idea was known.");
        terminal.until("› ");
        terminal.press("both please");
        terminal.until("both please");
        terminal.press("\r");
        terminal.until("</document>");
        terminal.until("› ");
        let (code, shown) = tokio::task::spawn_blocking(|| leave(terminal)).await.unwrap();
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains(&format!("the {which} of f is stored")), "{shown}");
        let (_, texts) = api.get("/features/f/texts").await;
        assert_eq!(texts[which], "# It greets in both", "{texts}");
    }

    // Leaving before there is a text changes nothing.
    let mut terminal = open(&world, &api, "feature spec f", "@say Hm.");
    terminal.until("Hm.");
    terminal.until("› ");
    let (code, shown) = tokio::task::spawn_blocking(|| leave(terminal)).await.unwrap();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("nothing was stored"), "{shown}");
    let shown = open(&world, &api, "feature spec f --show", "").end().1;
    assert!(shown.contains("# It greets in both"), "{shown}");
}

/// In a repository, the agent gets a copy of the committed files and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_of_a_conversation_sees_committed_files_only() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let draft = json!({"name": "f", "description": "Greets everybody", "draft": true});
    assert_eq!(api.post("/features", &draft).await.0.as_u16(), 201);
    let project = world.dir().join("a project");
    let below = project.join("src");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::create_dir_all(project.join(".ralph/secrets")).unwrap();
    for file in [".ralph/secrets/password", "src/committed", "src/new"] {
        std::fs::write(project.join(file), "x\n").unwrap();
    }
    let git = |args: &[&str]| {
        let git = Command::new("git").arg("-C").arg(&project).args(args).status();
        assert!(git.unwrap().success(), "{args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "src/committed"]);
    git(&[
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.org",
        "commit",
        "-q",
        "-m",
        "A",
    ]);
    let script = "@expect-pass test -f src/committed && git log -1 && test ! -e .ralph && test ! -e src/new\n\
                  @say <document>\n@say It is a copy.\n@say </document>\n";
    let mut terminal = open_in(&below, &world, &api, "feature spec f", script);
    terminal.until("nothing that isn't committed");
    terminal.until("</document>");
    terminal.until("› ");
    let (code, shown) = tokio::task::spawn_blocking(|| leave(terminal)).await.unwrap();
    assert_eq!(code, Some(0), "{shown}");
    let (_, texts) = api.get("/features/f/texts").await;
    assert_eq!(texts["spec"], "It is a copy.", "{texts}");
}
