//! `feature spec` and `feature plan` at a terminal: a person and an agent write the text together.

use std::process::Command;

use ralph_tests::harness::{Terminal, World, binary};
use serde_json::json;

use crate::caller::{ADMIN, Api};

fn open(world: &World, api: &Api, args: &str, script: &str) -> Terminal {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args.split(' '))
        .current_dir(world.dir())
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

/// Leaves the chat; gives the exit code.
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

    // Who leaves before there is a text changes nothing.
    let mut terminal = open(&world, &api, "feature spec f", "@say Hm.");
    terminal.until("Hm.");
    terminal.until("› ");
    let (code, shown) = tokio::task::spawn_blocking(|| leave(terminal)).await.unwrap();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("nothing was stored"), "{shown}");
    let shown = open(&world, &api, "feature spec f --show", "").end().1;
    assert!(shown.contains("# It greets in both"), "{shown}");
    api.stop().await;
    world.stop().await;
}
