//! A transcript holds what its worker sent: others cannot add to it, and the worker resends what the broker
//! lost.

use ralph_coordinator::embedded::Role;
use ralph_shared::ids::{DispatchId, Incarnation};
use ralph_shared::subjects::Subjects;
use ralph_shared::wire::{TranscriptBatch, TranscriptEntry, TranscriptOrigin, TranscriptUpdate, WRITES};
use ralph_worker::coordinator::BrokerConnection;
use serde_json::json;

use crate::stage::Stage;
use crate::typed::{started, stdout_of, wait_for_output, wait_for_words};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_transcripts_are_ignored_and_lost_ones_are_sent_again() {
    let stage = Stage::start().await;
    let gate = stage.world.gate("fenced");
    let description = format!(
        "@say first words\n@wait-for {}\n@say last words\n@done",
        gate.display()
    );
    let tasks = json!([{"key": "a", "title": "A", "description": description}]).to_string();
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    let mut follower = started(&stage, "follower", "logs f/a --follow");
    wait_for_words(&follower, "first words").await;

    // Anyone with the workers' login can publish under any dispatch.
    let thief = BrokerConnection::connect(
        &stage.world.nats_url(Role::Worker).unwrap(),
        Subjects::default(),
        "thief",
    )
    .await
    .unwrap();
    let dispatch: uuid::Uuid = sqlx::query_scalar("select id from dispatches where state = 'live'")
        .fetch_one(&stage.world.db)
        .await
        .unwrap();
    let forged = |origin| TranscriptBatch {
        v: WRITES,
        dispatch: DispatchId(dispatch),
        origin,
        entries: vec![TranscriptEntry {
            seq: 1_000_000_000,
            at_ms: 0,
            update: TranscriptUpdate::Text {
                text: "forged words".to_owned(),
            },
        }],
    };
    let worker = TranscriptOrigin {
        worker: "w".to_owned(),
        incarnation: Incarnation::new(),
    };
    for origin in [None, Some(worker)] {
        thief.transcript(&forged(origin)).await.unwrap();
    }

    // The broker loses all entries so far.
    let bus = &stage.world.bus;
    let stream = bus
        .jetstream
        .get_stream(bus.subjects.transcripts_stream())
        .await
        .unwrap();
    stream.purge().await.unwrap();
    for _ in 0..2 {
        thief.transcript(&forged(None)).await.unwrap();
    }
    std::fs::write(&gate, "").unwrap();
    stage.ends("complete").await;
    assert_eq!(follower.wait().await.code(), Some(0), "{}", follower.output());
    assert!(!follower.output().contains("forged"), "{}", follower.output());
    let whole = wait_for_output(&stage, "logs f/a --raw", "first words").await;
    assert!(
        whole.contains("last words") && !whole.contains("forged"),
        "{whole}"
    );
    let stored: String = stdout_of(&stage, "logs f/a").await;
    assert!(
        stored.contains("✓ says done") && !stored.contains("<task-done>"),
        "{stored}"
    );
}
