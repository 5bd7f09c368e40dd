//! Real agents start Ralph's own MCP server and call its tools, in a read-only session and in a work session.

use ralph_coordinator::flow::maintenance::transcripts;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate};
use ralph_tests::harness::{FeatureOptions, until};
use serde_json::json;
use uuid::Uuid;

use super::real::Real;
use super::stage::Stage;

/// Bytes of a transcript's beginning, and of its end.
const HALF_BYTES: usize = 1024 * 1024;

/// One session creates the task with a tool; another completes it, and records knowledge and progress with
/// tools.
async fn tools_are_called(real: Real) {
    let stage = Stage::with(real, 1).await;
    let fact =
        json!({ "kind": "knowledge", "title": "Port", "tags": ["net"], "text": "It listens on 8123." });
    let progress = json!({ "done": "the first half", "next": "the second half" });
    let task = format!("@tool memory_add {fact}\n@write a.txt a\n@tool report_progress {progress}\n@done");
    let tasks = json!({ "tasks": [{ "key": "a", "title": "A", "description": task }] });
    let options = FeatureOptions {
        plan: Some(format!("@tool task_create {tasks}")),
        ..FeatureOptions::default()
    };
    let (run, _) = stage.submit("", &options).await;
    let dispatches = stage.complete(run).await;
    assert_eq!(dispatches.len(), 1, "{dispatches:?}");
    assert_eq!(stage.landed("a.txt"), "a\n");

    let db = &stage.world.db;
    let known: Vec<(String, String, bool)> =
        sqlx::query_as("select title, body, released_at is not null from knowledge")
            .fetch_all(db)
            .await
            .unwrap();
    assert_eq!(
        known,
        [("Port".to_owned(), "It listens on 8123.".to_owned(), true)]
    );
    let notes: Vec<(String, String)> = sqlx::query_as("select kind, body from session_memory order by id")
        .fetch_all(db)
        .await
        .unwrap();
    for (kind, body) in [
        ("step_done", "the first half"),
        ("step_pending", "the second half"),
    ] {
        assert!(notes.contains(&(kind.to_owned(), body.to_owned())), "{notes:?}");
    }
    for (kind, tool, answer) in [
        ("build", "task_create", "the tasks are taken"),
        ("work", "memory_add", "kept"),
        ("work", "report_progress", "noted"),
    ] {
        let transcript = transcript(&stage, kind).await;
        let served = transcript.iter().any(|entry| match &entry.update {
            TranscriptUpdate::Request {
                method,
                answer: given,
                ..
            } => *method == format!("mcp {tool}") && given.contains(answer),
            _ => false,
        });
        // Qwen Code shows only the arguments as a call's title.
        let shown = real == Real::Qwen
            || transcript.iter().any(|entry| match &entry.update {
                TranscriptUpdate::Tool { title, .. } => {
                    title.as_ref().is_some_and(|title| title.contains(tool))
                }
                _ => false,
            });
        assert!(served && shown, "{tool}: {transcript:#?}");
    }
}

/// The transcript of the only session of this kind.
async fn transcript(stage: &Stage, kind: &str) -> Vec<TranscriptEntry> {
    let db = &stage.world.db;
    let dispatch: Uuid = sqlx::query_scalar("select id from dispatches where kind::text = $1")
        .bind(kind)
        .fetch_one(db)
        .await
        .unwrap();
    until("a transcript", async || {
        let entries = transcripts::entries(&stage.world.bus, db, DispatchId(dispatch), HALF_BYTES).await;
        let entries = entries.unwrap();
        let last = entries.last().map(|entry| &entry.update);
        match last {
            Some(TranscriptUpdate::Ended { .. }) => Ok(entries),
            last => Err(format!("{last:?}")),
        }
    })
    .await
}

with_each! {
    tools_are_called;
    claude: Claude;
    opencode: OpenCode;
    gemini: Gemini;
    qwen: Qwen;
    codex: Codex;
}
