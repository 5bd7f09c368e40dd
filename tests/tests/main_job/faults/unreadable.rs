//! A coordinator of a later release, whose assignments this worker can't read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use nix::sys::signal::Signal;
use ralph_coordinator::embedded::Role;
use ralph_shared::broker;
use ralph_shared::subjects::Subjects;
use ralph_shared::wire::{HeartbeatAnswer, HelloAnswer, WRITES};
use ralph_tests::harness::{WorkerOptions, World, until};

/// More than a second of heartbeats: an unanswered claim would be repeated sooner.
const BEATS: usize = 15;

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_assignment_is_logged_and_not_claimed_again() {
    let world = World::start().await.unwrap();
    let url = world.nats_url(Role::Coordinator).unwrap();
    let client = broker::connect(&url, "later").await.unwrap();
    let subjects = Subjects::default();
    let welcome = HelloAnswer::Welcome {
        v: WRITES,
        heartbeat_ms: 100,
        lease_ms: 60_000,
        dark_limit_ms: 600_000,
    };
    let renewed = HeartbeatAnswer::Renewed {
        settled: Vec::new(),
        end: Vec::new(),
        drain: false,
        shares: Vec::new(),
        archived: Vec::new(),
        words: Vec::new(),
    };
    let unreadable = br#"{"answer": "assigned", "assignment": {"work": {"kind": "dream"}}}"#;
    let (beats, claims) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let answers = [
        (
            subjects.hello(),
            serde_json::to_vec(&welcome).unwrap(),
            Arc::default(),
        ),
        (
            subjects.heartbeat(),
            serde_json::to_vec(&renewed).unwrap(),
            beats.clone(),
        ),
        (subjects.claim(), unreadable.to_vec(), claims.clone()),
    ];
    for (subject, answer, count) in answers {
        let mut asked = client.subscribe(subject).await.unwrap();
        let client = client.clone();
        tokio::spawn(async move {
            while let Some(message) = asked.next().await {
                count.fetch_add(1, Ordering::Relaxed);
                let reply = message.reply.unwrap();
                client.publish(reply, answer.clone().into()).await.unwrap();
            }
        });
    }
    client.flush().await.unwrap();
    let mut worker = world
        .worker(&WorkerOptions::named("early").pool("early"))
        .unwrap();
    let logged = async || worker.output().contains("an assignment can't be read");
    until("the error in the worker's log", logged).await;
    let since = beats.load(Ordering::Relaxed);
    let passed = async || beats.load(Ordering::Relaxed) >= since + BEATS;
    until("more heartbeats", passed).await;
    assert_eq!(claims.load(Ordering::Relaxed), 1, "{}", worker.output());
    worker.signal(Signal::SIGTERM);
    assert!(worker.wait().await.success(), "{}", worker.output());
}
