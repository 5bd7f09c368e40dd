//! Examples in the OpenAPI document: a body of each request, and the requests that the coordinator sends.

use serde_json::{Map, Value, json};

use crate::domain::states::RunOutcome;
use crate::store::notice::Event;

/// An example of an operation's request body.
pub fn of(operation: &str) -> Option<Value> {
    let example = match operation {
        "submit_feature" => json!({
            "name": "greeting",
            "repo": { "address": "git@github.com:team/todo.git", "base_ref": "main" },
            "tasks": [
                { "key": "parse", "title": "Read the greeting's language from the command line" },
                { "key": "greet", "title": "Greet in that language", "after": ["parse"] },
            ],
            "run": { "cost_usd": 5.0, "gate": ["make test"] },
        }),
        "submit_task" => json!({
            "title": "Write down how greetings are translated",
            "feature": "greeting",
            "after": ["greeting/greet"],
        }),
        "run_feature" | "run_task" | "build_feature" | "review_feature" => {
            json!({ "cost_usd": 5.0, "iterations": 40 })
        }
        "edit_feature" => json!({ "max_parallel": 8, "run": { "cost_usd": 50.0 } }),
        "edit_task" => json!({ "priority": -1, "model": "opus" }),
        "command_task" => json!({ "reason": "Keep the old flag working, too" }),
        "answer_question" => json!({ "answer": "Keep both, and name the old one deprecated" }),
        "add_blockers" => json!({ "blockers": ["greeting/parse"] }),
        "write_text" => json!({ "text": "1. Read the flag.\n2. Greet.\n" }),
        "merge_feature" => json!({ "how": "squash", "into": "main" }),
        "revert_task" => json!({ "redo": true, "reason": "It broke the build on Windows" }),
        "prune_feature" => json!({ "older_than_ms": 604_800_000, "dry_run": true }),
        "set_schedule" => json!({ "cron": "0 3 * * 1-5", "time_zone": "Europe/Berlin", "missed": "skip" }),
        "pause_schedule" => json!({ "paused": true }),
        "create_hook" => json!({ "name": "nightly", "feature": "greeting" }),
        "create_token" => json!({ "name": "alice", "role": "submit", "expires_in_ms": 2_592_000_000_i64 }),
        "set_budget" => json!({ "cost_usd": 50.0 }),
        "add_entry" => json!({
            "repo": "github.com/team/todo",
            "kind": "learning",
            "title": "Tests need a time zone",
            "body": "Run them with TZ=UTC, or the dates differ.",
            "tags": ["tests"],
        }),
        "edit_entry" => json!({ "body": "Run them with TZ=UTC; `make test` does." }),
        "import_memory" => json!({
            "repo": "github.com/team/todo",
            "items": [{ "id": "wiki-12", "date": "2026-01-31T00:00:00Z", "title": "Serials wrap", "body": "At 2^32." }],
        }),
        "search_memory" => json!({
            "repo": "github.com/team/todo",
            "kind": "learning",
            "limit": 5,
            "queries": [{ "query_id": "q1", "date": "2026-12-01T00:00:00Z", "title": "Dates differ in tests" }],
        }),
        "prune_memory" => json!({ "unused_days": 180.0, "dry_run": true }),
        "resume_memory" => json!({ "repo": "github.com/acme/zones" }),
        "purge_memory" | "restore_memory" => json!({ "ids": ["l-0123456789ab"] }),
        _ => return None,
    };
    Some(example)
}

/// The requests to `[notify] url`.
pub fn webhooks() -> Value {
    let mut hooks = Map::new();
    for event in Event::ALL {
        let signature = json!({
            "name": "ralph-signature",
            "in": "header",
            "description": "`t=SECONDS,v1=HEX`: HMAC-SHA256 of `SECONDS.BODY` with the key `[notify] secret`, if one is set",
            "schema": { "type": "string" },
        });
        let operation = json!({
            "operationId": format!("notice_{}", event.into_str()),
            "summary": meaning(event),
            "description": "The coordinator repeats the request with growing pauses over some six hours until it gets a status from 200 to 299. \
                            A delivered notice may come again under the same `id`.",
            "parameters": [signature],
            "requestBody": { "required": true, "content": { "application/json": {
                "schema": { "$ref": "#/components/schemas/Notice" },
                "example": {
                    "id": "01a2179c-f5fd-7000-8000-3338a8eaa0e8", "event": event.into_str(), "at": "2026-12-01T08:00:00Z",
                    "feature": { "id": "f-3338a8eaa0e8", "name": "greeting" }, "run": null, "reason": "it needs a person",
                },
            } } },
            "responses": { "2XX": { "description": "Accepted" } },
        });
        hooks.insert(event.into_str().to_owned(), json!({ "post": operation }));
    }
    hooks.into()
}

/// The schema of a notice.
pub fn notice() -> Value {
    let events = Event::ALL.map(|one| one.into_str());
    let outcomes = [
        RunOutcome::Complete,
        RunOutcome::Failure,
        RunOutcome::LimitReached,
        RunOutcome::Blocked,
        RunOutcome::NoPlan,
        RunOutcome::Interrupted,
    ];
    let outcomes = outcomes.map(|one| one.into_str());
    let named = |more: Value| {
        let mut fields = json!({ "id": { "type": "string" } });
        if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
            fields.extend(more);
        }
        json!({ "type": ["object", "null"], "properties": fields })
    };
    let text = json!({ "type": ["string", "null"] });
    json!({
        "type": "object",
        "description": "A notice for people: a run ended, a task needs a person, …",
        "required": ["id", "event", "at"],
        "properties": {
            "id": { "type": "string", "format": "uuid", "description": "Stays the same when the notice is sent again" },
            "event": { "type": "string", "enum": events },
            "at": { "type": "string", "format": "date-time" },
            "feature": named(json!({ "name": text })),
            "run": named(json!({ "outcome": { "type": ["string", "null"], "description": outcomes.join(", ") } })),
            "task": named(json!({ "key": text, "title": text })),
            "pool": { "type": "string" },
            "reason": text,
        },
    })
}

fn meaning(event: Event) -> &'static str {
    match event {
        Event::RunEnded => "A run ended",
        Event::PersonNeeded => "A task needs a person",
        Event::PoolPaused => "Every session of a pool fails at the start of its agent",
        Event::DeadlinePassed => "A feature is not finished at its deadline",
        Event::BudgetUsed => "A part of a limit is used up",
        Event::WorkerDrained => "A worker takes no more work, because every session fails there",
    }
}
