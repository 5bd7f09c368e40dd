use std::fs;

use agent_client_protocol::v1::schema::SessionUpdate;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::client::{Heard, Talk, chunk_text};
use super::wire::Wire;
use super::{DEADLINE, prompt};

async fn hear(description: &str) -> Heard {
    let folder = tempfile::tempdir().unwrap();
    Talk::default().hold(folder.path(), &prompt(description)).await
}

#[tokio::test]
async fn directives_do_real_work_and_report_it() {
    let folder = tempfile::tempdir().unwrap();
    let heard = Talk::default()
        .hold(
            folder.path(),
            &prompt(
                "Prose comes first.\n@write src/a.txt <<END\none\n@say not a directive\nEND\n@append src/a.txt three\n\
                 @insert src/a.txt one : two\n@insert src/a.txt none : x\n@read src/a.txt\n@read missing\n\
                 @run cat src/a.txt | wc -l; echo oops >&2; exit 3\n@done",
            ),
        )
        .await;
    let expected = "one\ntwo\n@say not a directive\nthree\n";
    assert_eq!(
        fs::read_to_string(folder.path().join("src/a.txt")).unwrap(),
        expected
    );
    assert_eq!(heard.stop_reason(), "end_turn");
    assert_eq!(heard.text(), "<task-done>t-0123456789ab</task-done>\n");
    let tools = heard.tools();
    assert_eq!(
        tools.iter().map(|(completed, _)| *completed).collect::<Vec<_>>(),
        [true, true, true, false, true, false, false]
    );
    assert_eq!(tools[4].1, expected);
    assert_eq!(
        tools[6].1.split_whitespace().collect::<Vec<_>>().join(" "),
        "4 oops exit status: 3"
    );
    assert!(heard.exit.status.success(), "{:?}", heard.exit);
}

#[tokio::test]
async fn a_prompt_without_directives_ends_the_turn() {
    let heard = hear("Please do something.").await;
    assert_eq!(
        (heard.text().as_str(), heard.stop_reason().as_str()),
        ("I found nothing to do.\n", "end_turn")
    );
    let folder = tempfile::tempdir().unwrap();
    let heard = Talk::default().hold(folder.path(), "@crash\n").await;
    assert_eq!(heard.text(), "I found nothing to do.\n");
}

#[tokio::test]
async fn speech_arrives_in_its_form_and_order() {
    let heard = hear(
        "@say a\\nb\n@split <promise>{id}</promise>\n@think deep\n@plan +A|>B|C\n@usage 10 5 0.25\n@usage 1 1 0.25\n\
         @tool-update-only\n@echo-prompt\n@stderr a warning",
    )
    .await;
    assert_eq!(heard.text(), "a\nb\n<promise>t-0123456789ab</promise>\n");
    let names: Vec<String> = heard
        .updates
        .iter()
        .map(|update| {
            serde_json::to_value(update).unwrap()["sessionUpdate"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let split = "<promise>t-0123456789ab</promise>\n".len();
    assert_eq!(
        names.iter().filter(|name| *name == "agent_message_chunk").count(),
        1 + split
    );
    let rest = [
        "agent_thought_chunk",
        "plan",
        "usage_update",
        "usage_update",
        "tool_call_update",
        "user_message_chunk",
    ];
    assert_eq!(names[1 + split..], rest);
    let usage = heard.answer.as_ref().unwrap().usage.as_ref().unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.total_tokens),
        (11, 6, 17)
    );
    let Some(SessionUpdate::UserMessageChunk(echo)) = heard.updates.last() else {
        panic!("{names:?}")
    };
    assert!(chunk_text(echo).starts_with("You work on one task."));
    assert_eq!(String::from_utf8_lossy(&heard.exit.stderr), "a warning\n");
}

#[tokio::test]
async fn the_client_is_asked_for_files_terminals_and_permission() {
    let folder = tempfile::tempdir().unwrap();
    let heard = Talk::default()
        .hold(
            folder.path(),
            &prompt(
                "@fs-write a.txt one\n@fs-read a.txt\n@fs-read b.txt\n@term cat a.txt; exit 7\n@ask a safe thing\n\
                 @ask a rash thing\n@unknown-request",
            ),
        )
        .await;
    assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "one\n");
    let tools = heard.tools();
    assert_eq!(
        tools[..2],
        [(true, "done".to_owned()), (true, "one\n".to_owned())]
    );
    assert!(
        !tools[2].0 && tools[2].1.starts_with("error -32002: Resource not found"),
        "{tools:?}"
    );
    let text = heard.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "terminal exit 7: one",
            "permission a safe thing: allow",
            "permission a rash thing: reject"
        ]
    );
    assert!(
        lines[3].starts_with("unknown request: error -32601: Method not found"),
        "{text}"
    );
}

#[tokio::test]
async fn attempt_kind_and_prompt_choose_the_directives() {
    let description = "@on-attempt 1 @say first\n@on-attempt 2+ @say later\n@on-kind verify @say judging\n\
                       @if-prompt-has a lesson learned : @say remembered\n@if-prompt-has never told : @say invented\n\
                       @unless-prompt-has a lesson learned : @say forgotten";
    let rows: [(&[(&str, &str)], &str); 3] = [
        (&[], "first\nremembered\n"),
        (&[("RALPH_ATTEMPT", "3")], "later\nremembered\n"),
        (&[("RALPH_KIND", "verify")], "judging\n<verify-pass/>\n"),
    ];
    for (environment, expected) in rows {
        let folder = tempfile::tempdir().unwrap();
        let talk = Talk {
            environment,
            ..Talk::default()
        };
        assert_eq!(
            talk.hold(folder.path(), &prompt(description)).await.text(),
            expected,
            "{environment:?}"
        );
    }
}

#[tokio::test]
async fn a_broken_expectation_fails_the_task() {
    let failed = |tried: &str, why: &str| {
        format!(
            "<task-failed>t-0123456789ab</task-failed>\n<failure-report>\nwhat_tried: {tried}\nwhy_failed: {why}\n\
             error_category: unknown\n</failure-report>\n"
        )
    };
    let heard = hear("@expect-fail false\n@expect-pass echo no; exit 2\n@done").await;
    assert_eq!(heard.text(), failed("echo no; exit 2", "no\nexit status: 2"));
    let heard = hear("@expect-fail true\n@done").await;
    assert_eq!(
        heard.text(),
        failed("true", "it passed and should have failed\nexit status: 0")
    );
    let heard = hear("@fail too hard\n@done").await;
    assert_eq!(
        (heard.text(), heard.stop_reason().as_str()),
        (failed("what the script says", "too hard"), "end_turn")
    );

    let folder = tempfile::tempdir().unwrap();
    let talk = Talk {
        environment: &[("RALPH_KIND", "verify")],
        ..Talk::default()
    };
    let heard = talk
        .hold(
            folder.path(),
            &prompt("@done\n@on-kind verify @expect-pass exit 1"),
        )
        .await;
    assert_eq!(
        heard.text(),
        "<verify-fail>exit 1: exit status: 1</verify-fail>\n"
    );
}

#[tokio::test]
async fn a_script_with_an_error_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let heard = Talk::default()
        .hold(folder.path(), &prompt("@write a x\n@wirte b x"))
        .await;
    let error = heard.answer.expect_err("the prompt is refused");
    assert_eq!(i32::from(error.code), -32602);
    assert!(
        error
            .data
            .unwrap()
            .to_string()
            .contains("there is no directive `wirte`")
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn cancel_ends_a_command_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let script = format!(
        "@run (sleep 600 & echo started; wait) > {}\n@done",
        pipe.display()
    );
    let mut wire = Wire::prompt(&[], &script).await;
    assert_eq!(
        wire.message().await["params"]["update"]["sessionUpdate"],
        "tool_call"
    );
    let pipe = tokio::task::spawn_blocking(|| std::fs::File::open(pipe))
        .await
        .unwrap()
        .unwrap();
    let mut pipe = BufReader::new(tokio::fs::File::from_std(pipe)).lines();
    assert_eq!(pipe.next_line().await.unwrap().as_deref(), Some("started"));
    wire.cancel().await;
    assert_eq!(wire.message().await["result"]["stopReason"], "cancelled");
    // The pipe ends when the last of the processes has died.
    assert_eq!(
        tokio::time::timeout(DEADLINE, pipe.next_line())
            .await
            .unwrap()
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn silence_lasts_until_the_cancel() {
    let folder = tempfile::tempdir().unwrap();
    let talk = Talk {
        cancel_at: Some("before"),
        ..Talk::default()
    };
    let heard = talk
        .hold(folder.path(), &prompt("@say before\n@silent\n@say after"))
        .await;
    assert_eq!(
        (heard.text().as_str(), heard.stop_reason().as_str()),
        ("before\n", "cancelled")
    );
}

#[tokio::test]
async fn the_model_is_chosen_by_the_session_option() {
    let folder = tempfile::tempdir().unwrap();
    let talk = Talk {
        model: Some("opus"),
        environment: &[("RALPH_MODEL", "strong")],
        ..Talk::default()
    };
    let heard = talk.hold(folder.path(), &prompt("@model")).await;
    assert_eq!(heard.text(), "model opus, environment strong\n");
    assert_eq!(heard.options.unwrap().len(), 1);
    let talk = Talk {
        arguments: &["--no-model-option"],
        ..Talk::default()
    };
    assert_eq!(talk.hold(folder.path(), &prompt("@model")).await.options, None);
}

#[tokio::test]
async fn stop_reasons_and_errors_are_answered() {
    assert_eq!(
        hear("@stop max_tokens\n@say never").await.stop_reason(),
        "max_tokens"
    );
    let error = hear("@error -32603 it broke").await.answer.expect_err("an error");
    assert_eq!(
        (i32::from(error.code), error.message.as_str()),
        (-32603, "it broke")
    );
}

#[tokio::test]
async fn effects_are_counted_by_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("effects.log");
    let environment = [
        ("RALPH_EFFECTS_LOG", log.to_str().unwrap()),
        ("RALPH_ATTEMPT", "2"),
        ("RALPH_DISPATCH", "d-1"),
    ];
    let talk = Talk {
        environment: &environment,
        ..Talk::default()
    };
    talk.hold(folder.path(), &prompt("@effect built\n@effect tested"))
        .await;
    let log = fs::read_to_string(log).unwrap();
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0][..4], ["built", "t-0123456789ab", "2", "d-1"]);
    assert!(lines[1][0] == "tested" && lines[1][4] == lines[0][4] && lines[1][5] >= lines[0][5]);

    let error = hear("@effect lost").await.answer.expect_err("no log is named");
    assert!(error.data.unwrap().to_string().contains("RALPH_EFFECTS_LOG"));
}

#[tokio::test]
async fn a_wait_ends_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("late");
    let mut wire = Wire::prompt(
        &[],
        &format!("@say waiting\n@wait-for {}\n@wait 1\n@say over", file.display()),
    )
    .await;
    assert_eq!(wire.text().await, "waiting\n");
    fs::write(file, "").unwrap();
    assert_eq!(wire.text().await, "over\n");
}
