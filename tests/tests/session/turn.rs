//! Well-behaved agents.

use ralph_shared::wire::{Access, Basis, Ended};

use super::scene::{scene, turn};

#[tokio::test]
async fn a_turn_reports_its_text_tools_plan_and_usage() {
    let played = scene(
        "@think hm\n@plan +read|>write|test\n@say I begin.\n@write a.txt one\n@run exit 3\n@usage 10 5 0.25\n\
         @stderr a warning\n@split <task-done>{id}</task-done>",
    )
    .play()
    .await;
    let end = &played.end;
    assert_eq!(end.ended, turn("end_turn"));
    assert_eq!(end.text, "I begin.\n<task-done>t-0123456789ab</task-done>\n");
    assert!(!end.text_truncated);
    assert_eq!(end.tool_calls, 2);
    assert_eq!(
        end.attempted[..3],
        ["completed: read", "in_progress: write", "pending: test"]
    );
    assert_eq!(end.attempted[3], "Write a.txt");
    assert!(
        end.last_tool_error.as_ref().unwrap().contains("exit status: 3"),
        "{end:?}"
    );
    assert_eq!(
        (end.usage.input_tokens, end.usage.output_tokens),
        (Some(10), Some(5))
    );
    assert_eq!(end.usage.cost_usd, Some(0.25));
    assert_eq!(end.agent.configured, "scripted");
    assert_eq!(end.agent.name.as_deref(), Some("ralph-scripted-agent"));
    assert_eq!(end.stderr_tail, "a warning\n");
    let transcript = played.transcript();
    for shown in [
        "\"update\":\"started\"",
        "\"update\":\"thought\"",
        "\"update\":\"plan\"",
        "Write a.txt",
    ] {
        assert!(transcript.contains(shown), "{shown} in {transcript}");
    }
    assert_eq!(std::fs::read_to_string(played.path("a.txt")).unwrap(), "one\n");
}

#[tokio::test]
async fn a_cost_that_the_agent_does_not_report_is_estimated() {
    let usage = scene("@say hi").play().await.end.usage;
    assert_eq!((usage.tokens(), usage.basis), (0, Some(Basis::Estimated)));
    assert!(usage.cost_usd.is_some_and(|usd| usd > 0.0), "{usage:?}");
}

#[tokio::test]
async fn echoed_prompts_and_thoughts_are_no_text() {
    let played = scene("@echo-prompt\n@think <task-done>t-0123456789ab</task-done>\n@say over")
        .play()
        .await;
    assert_eq!(played.end.text, "over\n");
}

#[tokio::test]
async fn every_update_of_a_long_stream_is_in_the_transcript() {
    use ralph_shared::wire::TranscriptUpdate as U;
    const COUNT: usize = 20_000;
    let played = scene(&format!("@stream {COUNT}\n@done")).play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    let numbers = played.entries.iter().flat_map(|entry| -> Vec<&str> {
        match &entry.update {
            U::Text { text } | U::Thought { text } => text.lines().collect(),
            U::Plan { entries } => entries
                .iter()
                .filter_map(|entry| entry.strip_prefix("pending: "))
                .collect(),
            U::Tool {
                output: Some(output), ..
            } => vec![output.trim()],
            _ => Vec::new(),
        }
    });
    let numbers: Vec<usize> = numbers.filter_map(|text| text.parse().ok()).collect();
    assert_eq!(numbers, (0..COUNT).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_session_yields_between_the_lines_that_it_reads() {
    let mut running = scene("@stream 5000\n@done").start();
    let most = running.most_at_once().await;
    let played = running.finish().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert!(played.entries.len() > 4_000, "{}", played.entries.len());
    assert!(most <= 3, "{most} entries at once");
}

#[tokio::test]
async fn stop_reasons_are_reported_unchanged() {
    for reason in ["max_tokens", "refusal", "cancelled", "tired"] {
        let played = scene(&format!("@stop {reason}")).play().await;
        assert_eq!(played.end.ended, turn(reason));
    }
}

#[tokio::test]
async fn the_model_is_set_in_every_supported_way_and_recorded() {
    let rows: [(&[&str], &str, Option<&str>); 3] = [
        (&[], "model opus, environment -", Some("opus")),
        (
            &["--no-model-option", "--set-model"],
            "model opus, environment -",
            Some("opus"),
        ),
        // Such an agent learns the model only from its environment.
        (&["--no-model-option"], "model sonnet, environment -", None),
    ];
    for (arguments, expected, recorded) in rows {
        let played = scene("@model").arguments(arguments).model("Opus").play().await;
        assert_eq!(played.end.text.trim_end(), expected, "{arguments:?}");
        assert_eq!(played.end.agent.model.as_deref(), recorded, "{arguments:?}");
        let mut stage = scene("@model").arguments(arguments).model("Opus");
        let variable = ("RALPH_MODEL".to_owned(), "Opus".to_owned());
        stage.spec.env.extend([variable]);
        let text = stage.play().await.end.text;
        assert!(text.ends_with("environment Opus\n"), "{arguments:?} {text}");
    }
}

#[tokio::test]
async fn only_what_is_allowed_is_in_the_environment() {
    let mut stage = scene("@run env | sort");
    stage
        .spec
        .env
        .insert("RALPH_ITERATION".to_owned(), "7".to_owned());
    stage.spec.agent.env.insert("EXTRA".to_owned(), "yes".to_owned());
    let home = stage.spec.home.display().to_string();
    let played = stage.play().await;
    let transcript = played.transcript();
    for shown in [
        "RALPH_ITERATION=7",
        "EXTRA=yes",
        "RALPH_DISPATCH=",
        &format!("HOME={home}"),
    ] {
        assert!(transcript.contains(shown), "{shown}");
    }
    for hidden in ["CARGO", "NEXTEST", "RUST_", "SECRET"] {
        assert!(
            !transcript.contains(&format!("\\n{hidden}")),
            "{hidden} in {transcript}"
        );
    }
}

#[tokio::test]
async fn secrets_leave_neither_as_text_nor_in_the_transcript() {
    let secret = "correct-horse-battery";
    let played = scene(&format!(
        "@split the key is {secret}.\n@run echo $MY_TOKEN; exit 1\n@stderr {secret}\n@error -32603 bad {secret}"
    ))
    .secret("MY_TOKEN", secret)
    .play()
    .await;
    assert_eq!(played.end.text, "the key is [redacted].\n");
    assert!(matches!(&played.end.ended, Ended::Protocol { message } if message.contains("bad [redacted]")));
    assert!(!format!("{:?}", played.end).contains(secret), "{:?}", played.end);
    let transcript = played.transcript();
    assert!(
        transcript.contains("[redacted]") && !transcript.contains(secret),
        "{transcript}"
    );
}

#[tokio::test]
async fn a_cut_agent_error_contains_no_part_of_a_secret() {
    // The message is cut to 2,000 bytes, which include some words before it.
    let secret = "correct-horse-battery-staple-".repeat(5);
    let played = scene(&format!("@error -32603 {}{secret}", "x".repeat(1880)))
        .secret("MY_TOKEN", &secret)
        .play()
        .await;
    let Ended::Protocol { message } = &played.end.ended else {
        panic!("{:?}", played.end.ended)
    };
    assert!(
        message.contains("[redacted]") && !message.contains("correct"),
        "{message}"
    );
}

#[tokio::test]
async fn cut_standard_error_contains_no_part_of_a_secret() {
    // The last 16 KiB are kept; they begin in the middle of the secret.
    let played = scene(
        "@run (printf %s $MY_TOKEN; head -c 16377 /dev/zero | tr '\\0' e) >/proc/$PPID/fd/2\n@say over",
    )
    .secret("MY_TOKEN", "correct-horse-battery")
    .play()
    .await;
    let tail = &played.end.stderr_tail;
    assert!(tail.starts_with("dacted]ee"), "{}", &tail[..tail.len().min(40)]);
}

#[tokio::test]
async fn read_only_sessions_are_offered_no_write() {
    let played = scene("@say hi").access(Access::ReadOnly).play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
}
