//! Tests of the sum of a session's updates.

use super::*;
use crate::session::redaction::Redactor;
use crate::session::transcript::channel;
use ralph_shared::agents::prices::{Price, Prices};
use ralph_shared::wire::{Basis, Share};
use serde_json::json;

fn record(updates: &[Value]) -> Record {
    let (transcript, _) = channel(Redactor::new([]));
    let mut record = Record::new(transcript, "a");
    record.set_session("s");
    for update in updates {
        record.update(&json!({ "sessionId": "s", "update": update }).to_string());
    }
    record
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

fn tool(id: &str, more: Value) -> Value {
    let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id });
    update
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    update
}

#[test]
fn only_message_text_counts_and_chunks_are_joined() {
    let record = record(&[
        chunk("user_message_chunk", "<task-done>t-1</task-done>"),
        chunk("agent_thought_chunk", "hm"),
        chunk("agent_message_chunk", "<task-"),
        json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }),
        json!({ "sessionUpdate": "from_the_future" }),
        chunk("agent_message_chunk", "done>"),
    ]);
    assert_eq!(record.text, "<task-done>");
}

#[test]
fn messages_around_a_tool_call_are_on_separate_lines() {
    let record = record(&[
        chunk("agent_message_chunk", "I look."),
        tool("1", json!({ "title": "Read a" })),
        tool("1", json!({ "status": "completed" })),
        chunk("agent_message_chunk", "FAILURE_REASON: "),
        tool("1", json!({})),
        chunk("agent_message_chunk", "none"),
    ]);
    assert_eq!(record.text, "I look.\nFAILURE_REASON: none");
    assert_eq!(record.tool_calls, 1);
}

#[test]
fn the_last_message_is_the_text_after_the_last_call() {
    let mut record = record(&[
        chunk("agent_message_chunk", "I look."),
        tool("1", json!({ "title": "Read a" })),
        chunk("agent_message_chunk", "API "),
        tool("1", json!({ "status": "completed" })),
        chunk("agent_message_chunk", "Error"),
    ]);
    assert_eq!(record.last_message(), "\nAPI Error");
    let update = json!({ "sessionId": "s", "update": tool("2", json!({ "title": "Read b" })) });
    record.update(&update.to_string());
    assert_eq!(record.last_message(), "");
    let message = json!({ "sessionId": "s", "update": chunk("agent_message_chunk", "over") });
    record.update(&message.to_string());
    assert_eq!(record.last_message(), "\nover");
    record.prompted("");
    assert_eq!(record.last_message(), "");
}

#[test]
fn updates_of_other_sessions_do_not_count() {
    let mut record = record(&[]);
    record.update(&json!({ "sessionId": "x", "update": chunk("agent_message_chunk", "no") }).to_string());
    assert_eq!(record.text, "");
}

#[test]
fn a_failed_tool_calls_output_is_recorded() {
    let failed = record(&[
        tool("1", json!({ "title": "Run tests", "kind": "execute" })),
        tool(
            "1",
            json!({ "content": [{ "type": "content", "content": { "type": "text", "text": "E1" } }] }),
        ),
        tool("1", json!({ "status": "failed" })),
        tool(
            "2",
            json!({ "title": "Edit", "status": "completed", "rawOutput": { "a": 1 } }),
        ),
    ]);
    assert_eq!(failed.last_tool_error.as_deref(), Some("E1"));
    assert_eq!(failed.tool_kind("1"), Some(ToolKind::Execute));
    assert_eq!(failed.attempted(), ["Run tests", "Edit"]);
    let silent = record(&[tool("1", json!({ "title": "Run", "status": "failed" }))]);
    assert_eq!(silent.last_tool_error.as_deref(), Some("Run"));
}

#[test]
fn updates_of_every_kind_appear_in_the_transcript() {
    use agent_client_protocol::v1::schema::SessionUpdate as U;
    let rows = [
        (chunk("user_message_chunk", "an echo"), "an echo"),
        (chunk("agent_message_chunk", "a word"), "a word"),
        (chunk("agent_thought_chunk", "a thought"), "a thought"),
        (
            json!({ "sessionUpdate": "tool_call", "toolCallId": "1", "title": "a tool", "rawInput": { "x": 1 } }),
            "a tool",
        ),
        (tool("1", json!({ "rawOutput": "a result" })), "a result"),
        (
            json!({ "sessionUpdate": "plan", "entries": [{ "content": "a plan", "priority": "low", "status": "pending" }] }),
            "a plan",
        ),
        (
            json!({ "sessionUpdate": "available_commands_update",
                    "availableCommands": [{ "name": "go", "description": "a command" }] }),
            "a command",
        ),
        (
            json!({ "sessionUpdate": "current_mode_update", "currentModeId": "a-mode" }),
            "a-mode",
        ),
        (
            json!({ "sessionUpdate": "config_option_update", "configOptions": [
                { "id": "an-option", "name": "n", "type": "select", "currentValue": "v", "options": [] }] }),
            "an-option",
        ),
        (
            json!({ "sessionUpdate": "session_info_update", "title": "a title" }),
            "a title",
        ),
        (
            json!({ "sessionUpdate": "usage_update", "used": 41, "size": 42 }),
            "41 of 42",
        ),
        (
            json!({ "sessionUpdate": "from_the_future", "said": "a surprise" }),
            "a surprise",
        ),
    ];
    for (update, shown) in rows {
        let known = serde_json::from_value::<U>(update.clone()).is_ok();
        let (transcript, mut receiver) = channel(Redactor::new([]));
        let mut record = Record::new(transcript.clone(), "a");
        record.update(&json!({ "sessionId": "s", "update": update }).to_string());
        transcript.flush();
        let entries = serde_json::to_string(&receiver.take()).unwrap();
        assert!(entries.contains(shown), "{update} in {entries}");
        let odd = entries.contains("a kind that is not known");
        assert_eq!(odd, !known, "{entries}");
        assert_eq!(odd, shown == "a surprise", "{entries}");
    }
}

#[test]
fn cost_is_the_newest_sum_and_other_currencies_are_unknown() {
    let usage = |amount: f64, currency: &str| {
        json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2,
                "cost": { "amount": amount, "currency": currency } })
    };
    let both = record(&[usage(0.5, "USD"), usage(0.75, "USD"), usage(9.0, "EUR")]);
    assert_eq!(both.used().cost_usd, Some(0.75));
}

#[test]
fn usage_without_a_dollar_cost_is_priced_by_the_model() {
    let price = Price {
        input: 1.0,
        output: 2.0,
        cache_read: None,
        cache_write: None,
    };
    let tariff = Tariff {
        prices: Prices([("*".to_owned(), price)].into()),
        ..Tariff::default()
    };
    let allowance = Arc::new(Allowance::new(Share {
        microusd: Some(1_000_000),
        tokens: None,
    }));
    let (transcript, _) = channel(Redactor::new([]));
    let mut record = Record::paid(transcript, "a", tariff, allowance);
    let tells = |record: &mut Record, update: Value| {
        record.update(&json!({ "sessionId": "s", "update": update }).to_string());
        let used = record.used();
        (used.cost_usd.map(|usd| (usd * 1e6).round()), used.basis)
    };
    let usage = |used: u64, cost: Value| json!({ "sessionUpdate": "usage_update", "used": used, "size": 1, "cost": cost });
    record.set_session("s");
    record.prompted(&"x".repeat(4_000));
    // By texts: 1,000 tokens read, and the written text.
    assert_eq!(record.used().basis, Some(Basis::Estimated));
    let message = chunk("agent_message_chunk", &"y".repeat(400));
    assert_eq!(
        tells(&mut record, message),
        (Some(1_200.0), Some(Basis::Estimated))
    );
    let euros = json!({ "amount": 9.0, "currency": "EUR" });
    assert_eq!(
        tells(&mut record, usage(2_100, euros)),
        (Some(2_200.0), Some(Basis::Estimated))
    );
    // Reported at the end: less than the estimate, but certain.
    record.answered(&json!({ "usage": { "inputTokens": 1_000, "outputTokens": 500 } }));
    let used = record.used();
    assert_eq!((used.cost_usd, used.basis), (Some(0.002), Some(Basis::Known)));
    assert_eq!(record.used_up(), None);
    // A jump ends the session, and a falling figure gives nothing back.
    let dollars = |amount: f64| json!({ "amount": amount, "currency": "USD" });
    tells(&mut record, usage(2_100, dollars(1.5)));
    assert_eq!(record.used_up(), Some(SessionLimit::Cost));
    tells(&mut record, usage(2_100, dollars(-3.0)));
    assert_eq!(record.used().cost_usd, Some(1.5));
}

#[test]
fn a_model_without_a_price_is_named_as_one_and_its_cost_is_an_estimate() {
    let answer = json!({ "usage": { "inputTokens": 1_000_000, "outputTokens": 0 } });
    for (model, expected, is_named) in [
        ("claude-sonnet-4", Basis::Known, false),
        ("nobodys", Basis::Estimated, true),
    ] {
        let (transcript, mut receiver) = channel(Redactor::new([]));
        let tariff = Tariff {
            models: vec![model.to_owned()],
            ..Tariff::default()
        };
        let mut record = Record::paid(transcript, "a", tariff, Arc::default());
        record.set_session("s");
        record.answered(&answer);
        assert_eq!(
            (record.used().cost_usd, record.used().basis),
            (Some(3.0), Some(expected)),
            "{model}"
        );
        let entries = serde_json::to_string(&receiver.take()).unwrap();
        assert_eq!(entries.contains("has no price of its own"), is_named, "{entries}");
    }
}
