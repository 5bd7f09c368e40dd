//! Requests of agents to their worker.

use agent_client_protocol::v1::schema::ToolKind;
use ralph_shared::wire::{Access, EndReason, TranscriptUpdate};
use ralph_worker::session::{Pattern, Rule, RuleAnswer};

use super::scene::{Played, scene, shell, turn};

#[tokio::test]
async fn files_terminals_and_permissions_are_served_and_shown() {
    let played = scene(
        "@fs-write a/b.txt one\n@fs-read a/b.txt\n@fs-read missing\n@term cat a/b.txt; echo $RALPH_DISPATCH | wc -c; exit 7\n\
         @ask a thing\n@unknown-request",
    )
    .play()
    .await;
    let lines: Vec<&str> = played.end.text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines[..3],
        ["terminal exit 7: one", "37", "permission a thing: allow"]
    );
    assert!(lines[3].starts_with("unknown request: error -32601"), "{lines:?}");
    assert_eq!(std::fs::read_to_string(played.path("a/b.txt")).unwrap(), "one\n");
    let transcript = played.transcript();
    for shown in [
        "fs/write_text_file",
        "fs/read_text_file",
        "error -32002",
        "terminal/create",
        "terminal/wait_for_exit",
        "terminal/release",
        "session/request_permission",
        "allowed: Allow",
        "refused: the method is not known",
    ] {
        assert!(transcript.contains(shown), "{shown} in {transcript}");
    }
}

#[tokio::test]
async fn paths_outside_the_workspace_are_refused() {
    let played = scene(
        "@run ln -s /etc link\n@fs-read /etc/passwd\n@fs-read link/passwd\n@fs-write ../out x\n@say over",
    )
    .play()
    .await;
    assert_eq!(played.end.text, "over\n");
    let transcript = played.transcript();
    assert!(!transcript.contains("root:"), "{transcript}");
    assert_eq!(
        transcript.matches("only files of the workspace").count() / 2,
        3,
        "{transcript}"
    );
    assert!(!played.folder.path().join("out").exists());
}

#[tokio::test]
async fn configured_rules_decide_by_kind_and_path() {
    let mut stage = scene("@fs-write kept/a x\n@fs-write b y\n@fs-read b\n@term touch c\n@ask a thing");
    let rule = |kind, path: Option<&str>| Rule {
        kinds: vec![kind],
        paths: path.into_iter().map(Pattern::new).collect(),
        answer: RuleAnswer::Reject,
    };
    stage.spec.agent.permissions = vec![rule(ToolKind::Edit, Some("kept")), rule(ToolKind::Execute, None)];
    let played = stage.play().await;
    assert!(!played.path("kept").exists() && !played.path("c").exists());
    assert_eq!(std::fs::read_to_string(played.path("b")).unwrap(), "y\n");
    assert!(
        played.end.text.contains("permission a thing: reject"),
        "{}",
        played.end.text
    );
    let transcript = played.transcript();
    assert!(
        transcript.contains("a rule of the worker's configuration"),
        "{transcript}"
    );
}

#[tokio::test]
async fn a_read_only_session_may_read_but_neither_write_nor_run() {
    let script =
        "@fs-read a\n@fs-write b x\n@term touch c\n@ask a thing\n@ask mcp__other__edit\n@ask mcp__ralph__ask";
    let stage = scene(script).access(Access::ReadOnly);
    std::fs::write(stage.work().join("a"), "one").unwrap();
    let played = stage.play().await;
    assert_eq!(
        played.end.text.trim(),
        "permission a thing: reject\npermission mcp__other__edit: reject\npermission mcp__ralph__ask: allow"
    );
    let transcript = played.transcript();
    assert!(
        transcript.contains("may not write") && transcript.contains("may not run"),
        "{transcript}"
    );
    assert!(!played.path("b").exists() && !played.path("c").exists());
}

#[tokio::test]
async fn a_session_with_commands_runs_them_but_writes_no_file() {
    let played = scene("@fs-write b x\n@term touch c\n@ask a thing")
        .access(Access::Commands)
        .play()
        .await;
    assert!(
        played.end.text.contains("permission a thing: allow"),
        "{}",
        played.end.text
    );
    assert!(!played.path("b").exists() && played.path("c").exists());
}

#[tokio::test]
async fn a_terminal_with_endless_output_returns_its_end() {
    let played = scene("@term head -c 1000000000 /dev/zero | tr '\\0' x; printf end")
        .play()
        .await;
    let text = &played.end.text;
    assert!(
        text.trim_end().ends_with("xend") && text.len() < 70_000,
        "{}",
        text.len()
    );
}

/// Plays an agent that sends this request in its turn; returns the answer, too.
async fn answered(request: &str) -> (Played, serde_json::Value) {
    let answer =
        |id: u8, result: &str| format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\\n'");
    let script = [
        "read -r l".to_owned(),
        answer(0, r#"{"protocolVersion":1}"#),
        "read -r l".to_owned(),
        answer(1, r#"{"sessionId":"s"}"#),
        format!("read -r l; echo '{request}'; read -r l; printf '%s' \"$l\" > answered"),
        answer(2, r#"{"stopReason":"end_turn"}"#),
    ];
    let played = shell(&script.join("; ")).play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    let answered = serde_json::from_str(&std::fs::read_to_string(played.path("answered")).unwrap()).unwrap();
    (played, answered)
}

#[tokio::test]
async fn permission_options_of_an_unknown_kind_are_skipped() {
    let option = |id: &str, kind: &str| format!(r#"{{"optionId":"{id}","name":"{id}","kind":"{kind}"}}"#);
    let options = [option("session", "allow_session"), option("once", "allow_once")].join(",");
    let request = format!(
        r#"{{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"c"}},"options":[{options}]}}}}"#
    );
    let (_, answered) = answered(&request).await;
    let selected = serde_json::json!({"outcome": {"outcome": "selected", "optionId": "once"}});
    assert_eq!(answered["result"], selected, "{answered}");
}

#[tokio::test]
async fn a_question_to_a_person_is_answered_at_once_and_recorded() {
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"Which database?","requestedSchema":{"type":"object","properties":{}}}}"#;
    let (played, answered) = answered(question).await;
    let answer = serde_json::json!({"action": "decline", "_meta": {"ralph": {"message": "nobody is there, decide and say so"}}});
    assert_eq!((&answered["id"], &answered["result"]), (&"q".into(), &answer));
    assert_eq!(played.end.questions, ["Which database?"]);
    let asked = played.entries.iter().find_map(|entry| match &entry.update {
        TranscriptUpdate::Request {
            method,
            detail,
            answer,
        } if method == "elicitation/create" => Some((detail, answer)),
        _ => None,
    });
    let (detail, answer) = asked.unwrap();
    assert!(detail.contains("Which database?"), "{detail}");
    assert!(answer.contains("nobody is there, decide and say so"), "{answer}");
}

#[tokio::test]
async fn terminals_end_with_the_session() {
    let mut running = scene("@term trap '' TERM; setsid sleep 600 & sleep 600").start();
    running
        .until(|update| {
            matches!(update, TranscriptUpdate::Request { method, .. } if method == "terminal/create")
        })
        .await;
    running.order_end(EndReason::Interrupted);
    running.finish().await;
}
