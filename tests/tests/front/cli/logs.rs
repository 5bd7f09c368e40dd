//! `logs`: running sessions, replays of old ones, and long ones.

use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate};
use ralph_tests::harness::until;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{output, started, stdout_of, wait_for_output, wait_for_words};

async fn stage(description: &str) -> Stage {
    let stage = Stage::start().await;
    stage
        .submit(json!({
            "tasks": {"source": "t", "text": json!([{"key": "a", "title": "A", "description": description}]).to_string()},
            "run": {"backoff_ms": 0, "cost_usd": 1000.0},
        }))
        .await;
    stage
}

/// Parses the JSON lines; each must be a transcript entry.
fn recorded(lines: &str) -> Vec<TranscriptEntry> {
    lines
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn texts(entries: &[TranscriptEntry]) -> String {
    let texts = entries.iter().filter_map(|entry| match &entry.update {
        TranscriptUpdate::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn followers_see_the_session_while_it_runs_and_its_end() {
    let stage = Stage::start().await;
    let gate = stage.world.gate("logs");
    let description = format!(
        "@say first words\n@wait-for {}\n@say last words\n@done",
        gate.display()
    );
    stage
        .submit(json!({"tasks": {"source": "t", "text": json!([{"key": "a", "title": "A", "description": description}]).to_string()}}))
        .await;
    // A follower may start before the session does.
    let mut people = started(&stage, "people", "logs f/a --follow");
    let mut raw = started(&stage, "raw", "logs f/a --follow --raw");
    wait_for_words(&people, "first words").await;
    wait_for_words(&raw, "first words").await;
    let live: i64 = sqlx::query_scalar("select count(*) from dispatches where state = 'live'")
        .fetch_one(&stage.world.db)
        .await
        .unwrap();
    assert_eq!(live, 1, "the output comes while the session runs");
    assert!(people.try_wait().is_none() && raw.try_wait().is_none());
    std::fs::write(&gate, "").unwrap();
    for command in [&mut people, &mut raw] {
        assert_eq!(command.wait().await.code(), Some(0), "{}", command.output());
    }
    let text = people.output();
    assert!(text.starts_with("── work attempt 1 (d-"), "{text}");
    for words in ["first words", "last words"] {
        assert_eq!(
            text.lines().filter(|line| line.trim() == words).count(),
            1,
            "{text}"
        );
    }
    let entries = recorded(&raw.output());
    assert_eq!(
        raw.output().lines().count(),
        entries.len(),
        "only entries: {}",
        raw.output()
    );
    let text = texts(&entries);
    assert!(
        text.contains("first words") && text.contains("last words"),
        "{text}"
    );
    let numbers: Vec<u64> = entries.iter().map(|entry| entry.seq).collect();
    let expected: Vec<u64> = (0..).take(entries.len()).collect();
    assert_eq!(numbers, expected);
    assert!(matches!(
        entries.last().unwrap().update,
        TranscriptUpdate::Ended { .. }
    ));
}

#[tokio::test]
async fn an_older_attempt_is_replayed_when_newer_ones_exist() {
    let stage = stage(
        "@on-attempt 1 @say words of the first\n@on-attempt 1 @fail not yet\n@on-attempt 2 @say words of the second\n@done",
    )
    .await;
    stage.ends("complete").await;
    let first = stdout_of(&stage, "logs f/a --attempt 1").await;
    assert!(
        first.contains("attempt 1 (") && first.contains("words of the first"),
        "{first}"
    );
    assert!(!first.contains("words of the second"), "{first}");
    for line in ["logs f/a", "logs f/a --attempt 2"] {
        let last = stdout_of(&stage, line).await;
        assert!(
            last.contains("attempt 2 (") && last.contains("words of the second"),
            "{last}"
        );
        assert!(!last.contains("words of the first"), "{last}");
    }
    let raw = stdout_of(&stage, "logs f/a --attempt 1 --raw").await;
    let entries = recorded(&raw);
    assert_eq!(raw.lines().count(), entries.len(), "{raw}");
    assert!(texts(&entries).contains("words of the first"), "{raw}");
    let document: Value =
        serde_json::from_str(&stdout_of(&stage, "logs f/a --attempt 1 --output json").await).unwrap();
    assert_eq!(document["attempt"], 1);
    // From the first attempt through all later ones.
    let all = stdout_of(&stage, "logs f/a --attempt 1 --follow").await;
    let at = |words: &str| all.find(words).unwrap_or_else(|| panic!("{words}: {all}"));
    assert!(at("words of the first") < at("attempt 2 (") && at("attempt 2 (") < at("words of the second"));
    let none = output(&stage, "logs f/a --attempt 3").await;
    let text = String::from_utf8_lossy(&none.stderr);
    assert_eq!(none.status.code(), Some(1), "{text}");
    assert!(
        text.contains("has no attempt 3") && text.contains("task show"),
        "{text}"
    );
}

#[tokio::test]
async fn a_long_transcript_keeps_both_ends_and_reports_the_gap() {
    let stage = stage("@say first words\n@flood 6M\n@say last words\n@done").await;
    stage.ends("complete").await;
    let transcript_stored = "select $1::uuid is not null and exists (select 1 from transcripts)";
    stage
        .world
        .until(transcript_stored, uuid::Uuid::nil())
        .await
        .unwrap();
    let text = wait_for_output(&stage, "logs f/a", "entries were not kept").await;
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words}"));
    assert!(
        at("first words") < at("entries were not kept") && at("entries were not kept") < at("last words")
    );
    assert!(
        text.lines().any(|line| line.starts_with("ended: ")) && text.trim_end().ends_with("──"),
        "{}",
        &text[text.len() - 200..]
    );
    let entries = recorded(&stdout_of(&stage, "logs f/a --raw").await);
    let left_out: Vec<u64> = entries
        .iter()
        .filter_map(|entry| match entry.update {
            TranscriptUpdate::Dropped { count } => Some(count),
            _ => None,
        })
        .collect();
    let [left_out] = left_out[..] else {
        panic!("{left_out:?}");
    };
    let stored = entries.len() as u64 - 1;
    assert_eq!(
        stored + left_out,
        entries.last().unwrap().seq + 1,
        "every lost entry is counted"
    );
    assert!(left_out > 20 && texts(&entries).len() < 4 << 20);
}

#[tokio::test]
async fn logs_explain_why_a_deleted_transcript_is_missing() {
    let stage = stage("@say first words\n@done").await;
    stage.ends("complete").await;
    let transcript_stored = "select $1::uuid is not null and exists (select 1 from transcripts)";
    stage
        .world
        .until(transcript_stored, uuid::Uuid::nil())
        .await
        .unwrap();
    // The stream drops the transcript a moment after the table has it.
    until("`logs` to say why it shows nothing", async || {
        sqlx::query("delete from transcripts")
            .execute(&stage.world.db)
            .await
            .unwrap();
        let shown = output(&stage, "logs f/a").await;
        let text = String::from_utf8(shown.stderr).unwrap();
        match shown.status.success() && text.contains("`transcripts_days` of [retention]") {
            true => Ok(()),
            false => Err(text),
        }
    })
    .await;
}
