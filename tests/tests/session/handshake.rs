//! Agents that fail before their first turn, and what a session negotiates with them.

use std::collections::BTreeMap;
use std::time::Duration;

use agent_client_protocol::v1::schema::{McpServer, McpServerHttp, McpServerStdio};

use ralph_shared::wire::{Ended, SessionLimit, Unavailable};
use ralph_worker::session::{AgentCommand, Check, ClientMethods, Resume};
use serde_json::Value;

use super::scene::{Scene, scene, shell, turn};

async fn door(scene: Scene) -> (Unavailable, String) {
    match scene.play().await.end.ended {
        Ended::Unavailable { door, message } => (door, message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_missing_command_is_named() {
    let mut stage = scene("");
    stage.spec.agent.argv = vec!["no-such-agent".to_owned(), "--flag".to_owned()];
    let (door, message) = door(stage).await;
    assert_eq!(door, Unavailable::NotFound);
    assert!(
        message.contains("`no-such-agent`") && message.contains("PATH"),
        "{message}"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_executed_is_not_found() {
    let mut stage = scene("");
    let file = stage.work().join("agent");
    std::fs::write(&file, "text").unwrap();
    stage.spec.agent.argv = vec![file.display().to_string()];
    assert_eq!(door(stage).await.0, Unavailable::NotFound);
}

#[tokio::test]
async fn a_missing_workspace_is_no_unavailable_agent() {
    let mut stage = scene("");
    stage.spec.cwd.push("missing");
    assert!(matches!(stage.play().await.end.ended, Ended::Workspace { .. }));
}

#[tokio::test]
async fn agents_that_exit_at_once_are_reported_with_their_last_output() {
    assert_eq!(
        door(scene("").arguments(&["--handshake", "exit"])).await.0,
        Unavailable::ExitsAtOnce
    );
    let (crash, message) = door(scene("").arguments(&["--handshake", "crash"])).await;
    assert_eq!(crash, Unavailable::ExitsAtOnce);
    assert!(message.contains("code 101"), "{message}");
    let (exits, message) = door(shell("echo no node here >&2; exit 127")).await;
    assert_eq!(exits, Unavailable::ExitsAtOnce);
    assert!(
        message.contains("no node here") && message.contains("127"),
        "{message}"
    );
}

#[tokio::test]
async fn closed_output_ends_the_handshake_at_once() {
    assert_eq!(
        door(shell("exec >&-; exec sleep 600")).await.0,
        Unavailable::ExitsAtOnce
    );
}

#[tokio::test]
async fn every_request_for_a_login_is_recognized() {
    assert_eq!(
        door(scene("").arguments(&["--handshake", "auth-required"]))
            .await
            .0,
        Unavailable::Authentication
    );
    let words = shell("echo 'Error: not logged in. Please run /login' >&2; exit 1");
    assert_eq!(door(words).await.0, Unavailable::Authentication);
    let scripted = scene("@say Invalid API key, please run /login");
    assert_eq!(door(scripted).await.0, Unavailable::Authentication);
}

#[tokio::test]
async fn a_login_with_a_key_of_the_environment_is_chosen() {
    let reply = |result: &str| {
        format!("read -r l; printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,{result}}}\\n' $i; i=$((i+1))")
    };
    let script = [
        "i=0".to_owned(),
        reply(r#""result":{"protocolVersion":1,"authMethods":[{"id":"oauth","name":"Browser"},{"id":"api-key","name":"Key"}]}"#),
        reply(r#""error":{"code":-32000,"message":"Authentication required"}"#),
        "read -r l; case $l in *authenticate*api-key*) ;; *) exit 9;; esac".to_owned(),
        r#"printf '{"jsonrpc":"2.0","id":2,"result":{}}\n'; i=3"#.to_owned(),
        reply(r#""result":{"sessionId":"s"}"#),
        reply(r#""result":{"stopReason":"end_turn"}"#),
    ]
    .join("; ");
    let played = shell(&script).play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
}

#[tokio::test]
async fn other_protocol_versions_are_refused() {
    assert_eq!(
        door(scene("").arguments(&["--handshake", "wrong-version"]))
            .await
            .0,
        Unavailable::Version
    );
    let unknown =
        r#"read -r l; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"what?"}}'; cat"#;
    assert_eq!(door(shell(unknown)).await.0, Unavailable::Version);
}

#[tokio::test]
async fn a_slow_handshake_succeeds() {
    let played = scene("@say hi")
        .arguments(&["--handshake", "slow:300"])
        .play()
        .await;
    assert_eq!(played.end.ended, turn("end_turn"));
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_hangs_ends_at_its_own_limit() {
    let mut hanging = scene("").arguments(&["--handshake", "hang"]);
    hanging.spec.agent.start_limit = Some(Duration::from_secs(3));
    let (silent, message) = door(hanging).await;
    assert_eq!(silent, Unavailable::Silent);
    assert!(
        message.contains("`initialize`")
            && message.contains("within 9 s")
            && message.contains("`start_seconds`"),
        "{message}"
    );
}

/// The first start takes longer than the limit, and would begin anew if it were cut short.
#[tokio::test]
async fn an_agent_gets_more_time_for_its_first_start() {
    let limit = Duration::from_secs(4);
    let cache = tempfile::tempdir().unwrap();
    let mut first = scene("@say hi");
    let scripted = first.spec.agent.argv.remove(0);
    let wait = limit.as_secs() + 2;
    let fetch = format!("[ -e $CACHE/whole ] || sleep {wait}; touch $CACHE/whole; exec $0");
    let agent = AgentCommand {
        argv: ["sh", "-c", &fetch, &scripted].map(str::to_owned).to_vec(),
        env: BTreeMap::from([("CACHE".to_owned(), cache.path().display().to_string())]),
        start_limit: Some(limit),
        ..first.spec.agent.clone()
    };
    first.spec.agent = agent.clone();
    let played = first.play().await;
    assert_eq!(played.end.ended, turn("end_turn"), "{}", played.transcript());
    let mut second = scene("@say hi");
    second.spec.agent = agent;
    assert_eq!(second.play().await.end.ended, turn("end_turn"));
}

#[tokio::test]
async fn an_agent_is_offered_only_its_configured_methods() {
    let mut stage = shell("read -r l; echo \"$l\" > asked; cat > /dev/null");
    stage.spec.agent.offered = ClientMethods {
        files: false,
        terminals: false,
    };
    let played = stage.limits(|limits| limits.session_ms = 1_000).play().await;
    let asked = std::fs::read_to_string(played.path("asked")).unwrap();
    let asked: Value = serde_json::from_str(&asked).unwrap();
    let offered = &asked["params"]["clientCapabilities"];
    assert_ne!(offered["terminal"], true, "{asked}");
    assert_ne!(offered["fs"]["readTextFile"], true, "{asked}");
    assert_ne!(offered["fs"]["writeTextFile"], true, "{asked}");
}

#[tokio::test]
async fn session_limits_hold_during_the_handshake() {
    let hanging = scene("")
        .arguments(&["--handshake", "hang"])
        .limits(|limits| limits.session_ms = 200);
    assert_eq!(
        hanging.play().await.end.ended,
        Ended::Limit {
            limit: SessionLimit::Session
        }
    );
}

#[tokio::test]
async fn errors_of_the_provider_are_distinguished() {
    let rows = [
        (
            "@error -32603 API Error: 429 too many requests",
            Unavailable::RateLimit,
        ),
        (
            "@error -32603 You exceeded your current quota",
            Unavailable::Quota,
        ),
        (
            "@error -32603 API Error: 529 overloaded_error",
            Unavailable::Overload,
        ),
        ("@error -32603 503 Service Unavailable", Unavailable::Overload),
        (
            "@error -32000 Authentication required",
            Unavailable::Authentication,
        ),
        ("@say API Error: 529 Overloaded", Unavailable::Overload),
        ("@stderr HTTP 429\n@exit 1", Unavailable::RateLimit),
    ];
    for (script, expected) in rows {
        assert_eq!(door(scene(script)).await.0, expected, "{script}");
    }
    let task = scene("@error -32603 API Error: 400 prompt is odd").play().await;
    assert!(
        matches!(task.end.ended, Ended::Protocol { .. }),
        "{:?}",
        task.end.ended
    );
}

#[tokio::test]
async fn errors_of_the_provider_do_not_fail_work_that_has_begun() {
    let crashed = Ended::AgentExited {
        code: Some(3),
        signal: None,
    };
    let idle = Ended::Limit {
        limit: SessionLimit::Idle,
    };
    let rows = [
        (
            "@read a\n@say API Error: 429 Too Many Requests",
            Err(Unavailable::RateLimit),
        ),
        (
            "@read a\n@say The API answers 429 Too Many Requests now.",
            Ok(turn("end_turn")),
        ),
        ("@say API Error: 429\n@read a\n@say over", Ok(turn("end_turn"))),
        (
            "@read a\n@stderr Error: 429 Too Many Requests\n@exit 3",
            Err(Unavailable::RateLimit),
        ),
        (
            "@read a\n@stderr Error: no such module\n@exit 3",
            Ok(crashed.clone()),
        ),
        // The agent recovered from this refusal.
        (
            "@stderr Error: 429 Too Many Requests\n@read a\n@wait 1500\n@say on\n@exit 3",
            Ok(crashed),
        ),
        (
            "@read a\n@stderr Error: 429 Too Many Requests\n@silent",
            Err(Unavailable::RateLimit),
        ),
        ("@read a\n@stderr a word\n@silent", Ok(idle)),
    ];
    for (script, expected) in rows {
        let stage = scene(script).limits(|limits| limits.idle_ms = 3_000);
        let ended = match stage.play().await.end.ended {
            Ended::Unavailable { door, .. } => Err(door),
            other => Ok(other),
        };
        assert_eq!(ended, expected, "{script}");
    }
}

#[tokio::test]
async fn an_agent_that_exits_during_the_check_of_its_text_ended_its_turn() {
    let script = [
        "i=0".to_owned(),
        answering(":", r#"{"protocolVersion":1}"#),
        answering(":", r#"{"sessionId":"s-1"}"#),
        answering(":", r#"{"stopReason":"end_turn"}"#),
        "exit 0".to_owned(),
    ];
    let mut stage = shell(&script.join("; "));
    stage.check = Some(Check::new(|_| Box::pin(std::future::pending())));
    assert_eq!(stage.play().await.end.ended, turn("end_turn"));
}

#[tokio::test]
async fn the_model_that_was_really_set_is_recorded() {
    let options = |model: &str| {
        format!(
            r#"{{"sessionId":"s-1","configOptions":[{{"id":"m","name":"Model","category":"model","type":"select","currentValue":"{model}","options":[{{"value":"small","name":"Small"}},{{"value":"large","name":"Large"}},{{"value":"large-2","name":"Newer"}}]}}]}}"#
        )
    };
    let update = format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s-1","update":{}}}}}"#,
        options("small").replace(
            r#""sessionId":"s-1""#,
            r#""sessionUpdate":"config_option_update""#
        )
    );
    for (before_end, recorded) in [(":".to_owned(), "large-2"), (format!("echo '{update}'"), "small")] {
        let script = [
            "i=0".to_owned(),
            answering(":", r#"{"protocolVersion":1}"#),
            answering(":", &options("small")),
            answering(":", &options("large-2")),
            answering(&before_end, r#"{"stopReason":"end_turn"}"#),
        ];
        let played = shell(&script.join("; ")).model("Large").play().await;
        assert_eq!(played.end.ended, turn("end_turn"));
        assert_eq!(played.end.agent.model.as_deref(), Some(recorded));
        assert!(
            played
                .transcript()
                .contains("was told the model large and set large-2")
        );
    }
}

/// A shell command that runs `before`, with the request in `$l`, and answers the request with this result.
fn answering(before: &str, result: &str) -> String {
    format!(
        "read -r l; {before}; printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{result}}}\\n' $i; i=$((i+1))"
    )
}

const CHUNK: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"WORD"}}}}"#;

#[tokio::test]
async fn a_resumed_session_does_not_repeat_its_text() {
    for (capability, method) in [
        (r#""loadSession":true"#, "session/load"),
        (
            r#""loadSession":true,"sessionCapabilities":{"resume":{}}"#,
            "session/resume",
        ),
    ] {
        let init = format!(r#"{{"protocolVersion":1,"agentCapabilities":{{{capability}}}}}"#);
        let old = format!(
            "case $l in *{method}*s-1*mcpServers*) ;; *) exit 9;; esac; echo '{}'",
            CHUNK.replace("WORD", "old")
        );
        let new = format!("echo '{}'", CHUNK.replace("WORD", "new"));
        let script = [
            "i=0".to_owned(),
            answering(":", &init),
            answering(&old, "{}"),
            answering(&new, r#"{"stopReason":"end_turn"}"#),
        ];
        let mut stage = shell(&script.join("; "));
        stage.spec.resume = Some(Resume {
            session: "s-1".to_owned(),
            or_new: true,
        });
        let played = stage.play().await;
        assert_eq!(played.end.ended, turn("end_turn"), "{method}");
        assert_eq!(played.end.text, "new", "{method}");
    }
}

#[tokio::test]
async fn configured_mcp_servers_and_mode_are_passed_on() {
    let modes = r#"{"sessionId":"s-1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"},{"id":"go","name":"Go on"}]}}"#;
    let script = [
        "i=0".to_owned(),
        answering(":", r#"{"protocolVersion":1}"#),
        answering(r#"printf '%s' "$l" > new.json"#, modes),
        answering(r#"printf '%s' "$l" > mode.json"#, "{}"),
        answering(":", r#"{"stopReason":"end_turn"}"#),
    ];
    let mut stage = shell(&script.join("; "));
    stage.spec.agent.mode = Some("Go on".to_owned());
    stage.spec.agent.mcp_servers = vec![
        McpServer::Stdio(McpServerStdio::new("files", "/bin/true").args(vec!["x".to_owned()])),
        McpServer::Http(McpServerHttp::new("web", "http://127.0.0.1:1/")),
    ];
    let played = stage.play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    let sent = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(played.path(name)).unwrap()).unwrap()
    };
    let servers = &sent("new.json")["params"]["mcpServers"];
    assert_eq!(servers.as_array().unwrap().len(), 1, "{servers}");
    assert_eq!(servers[0]["command"], "/bin/true");
    assert_eq!(sent("mode.json")["method"], "session/set_mode");
    assert_eq!(sent("mode.json")["params"]["modeId"], "go");
    // The agent did not announce support for HTTP servers.
    assert!(played.transcript().contains("MCP server web is left out"));
}

#[tokio::test]
async fn a_providers_retry_time_is_read_in_every_form() {
    let rows = [
        (
            "@stderr 429 Too Many Requests; Retry-After: 20\n@exit 1",
            Some(20),
        ),
        (
            "@error -32603 {\"error\":{\"type\":\"rate_limit_error\",\"retry_after\":7}}",
            Some(7),
        ),
        (
            "@error -32603 Rate limit reached. Please try again in 1m30s",
            Some(90),
        ),
        ("@say API Error: 529 Overloaded", None),
        ("@error -32603 retry after 5 s: the prompt is odd", None),
    ];
    for (script, expected) in rows {
        let end = scene(script).play().await.end;
        assert_eq!(
            end.retry_after,
            expected.map(Duration::from_secs),
            "{:?}",
            end.ended
        );
    }
}
