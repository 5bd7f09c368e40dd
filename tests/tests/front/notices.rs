//! Notices to the outside: a run ended, or a person is needed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hmac::{Hmac, KeyInit as _, Mac as _};
use ralph_coordinator::flow::{Notify, Settings};
use ralph_coordinator::prompt::{PromptOptions, Templates};
use ralph_coordinator::store::{self, view};
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, until};
use serde_json::Value;
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Far more than the pause after the first refusal; reached only by a failing test.
const BOUND: Duration = Duration::from_secs(60);

/// Reads a file until it contains `words`.
async fn wait_for_text(log: &std::path::Path, words: &str) -> String {
    until(words, async || {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        match text.contains(words) {
            true => Ok(text),
            false => Err(text),
        }
    })
    .await
}

#[tokio::test]
async fn a_pool_whose_agents_do_not_start_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!(
        "echo \"$RALPH_EVENT $RALPH_POOL: $RALPH_REASON\" >> {}",
        log.display()
    );
    let mut world = World::start_with(Settings {
        notify: Some(Notify {
            url: None,
            secret: None,
            command: vec!["sh".to_owned(), "-c".to_owned(), command],
            events: Vec::new(),
        }),
        heartbeat: Duration::from_millis(200),
        lease: Duration::from_millis(3_000),
        grace: Duration::from_millis(300),
        ..Settings::default()
    })
    .await
    .unwrap();
    world.coordinator().await.unwrap();
    let closed = world
        .worker(&WorkerOptions {
            agent: Some("no-such-agent".to_owned()),
            ..WorkerOptions::named("closed")
        })
        .unwrap();
    let options = FeatureOptions::default();
    let graph = "- key: a\n  title: A\n  description: \"@done\"\n";
    let (_, run, _) = world.submit("night", None, graph, &options).await.unwrap();
    let text = wait_for_text(&log, "pool_paused").await;
    assert!(
        text.contains("pool_paused default: ") && text.contains("no-such-agent"),
        "{text}"
    );
    drop(closed);
    // A worker whose agent starts opens the pool again.
    let open = world.worker(&WorkerOptions::named("open")).unwrap();
    world.ended(run).await.unwrap();
    let text = wait_for_text(&log, "run_ended").await;
    assert_eq!(text.matches("pool_paused").count(), 1, "{text}");
    let remaining: i64 = sqlx::query_scalar("select count(*) from closed_doors")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(remaining, 0);
    drop(open);
}

#[tokio::test(flavor = "multi_thread")]
async fn undelivered_notices_are_counted_with_the_latest_error() {
    let world = World::calm().await.unwrap();
    let undelivered = async || {
        let mut conn = world.db.acquire().await.unwrap();
        let system = view::system(&mut conn, world.settings.lease_ms()).await.unwrap();
        system.undelivered.map(|them| (them.notices, them.error))
    };
    sqlx::raw_sql(
        "insert into notices (id, event, pool, reason, at, error)
         values (gen_random_uuid(), 'pool_paused', 'old', '', now() - interval '25 hours', 'long ago'),
                (gen_random_uuid(), 'pool_paused', 'older', '', now() - interval '1 hour', 'refused'),
                (gen_random_uuid(), 'pool_paused', 'newer', '', now(), 'not reached'),
                (gen_random_uuid(), 'pool_paused', 'fine', '', now(), null)",
    )
    .execute(&world.db)
    .await
    .unwrap();
    assert_eq!(undelivered().await, Some((2, "not reached".to_owned())));
    let ids: Vec<Uuid> = sqlx::query_scalar("select id from notices")
        .fetch_all(&world.db)
        .await
        .unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    for id in ids {
        store::notice::close(&mut conn, id, None).await.unwrap();
    }
    drop(conn);
    assert_eq!(undelivered().await, None);
}

type Deliveries = mpsc::UnboundedSender<(HeaderMap, Bytes)>;

/// Refuses the first request.
async fn hook(
    State((deliveries, refused)): State<(Deliveries, Arc<Mutex<bool>>)>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if !std::mem::replace(&mut *refused.lock().unwrap(), true) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let _ = deliveries.send((headers, body));
    StatusCode::NO_CONTENT
}

#[tokio::test]
async fn the_url_and_the_command_get_run_ends_and_requests_for_a_person() {
    let (deliveries, mut messages) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let app = Router::new()
        .route("/hook", post(hook))
        .with_state((deliveries, Arc::default()));
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!(
        "cat >> {0}; echo \" $RALPH_EVENT $RALPH_FEATURE\" >> {0}",
        log.display()
    );
    let mut world = World::start_with(Settings {
        notify: Some(Notify {
            url: Some(url),
            secret: Some("s3cret".to_owned()),
            command: vec!["sh".to_owned(), "-c".to_owned(), command],
            events: Vec::new(),
        }),
        ..Settings::default()
    })
    .await
    .unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w")).unwrap();
    let options = FeatureOptions {
        max_retries: 0,
        ..FeatureOptions::default()
    };
    let graph = "- key: hard\n  title: Too hard\n  description: \"@fail no idea\"\n";
    let (_, run, _) = world.submit("night", None, graph, &options).await.unwrap();
    world.ended(run).await.unwrap();

    let mut events = Vec::new();
    for _ in 0..2 {
        let (headers, body) = tokio::time::timeout(BOUND, messages.recv())
            .await
            .unwrap()
            .unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(headers["ralph-event"], message["event"].as_str().unwrap());
        assert_eq!(headers["ralph-delivery"], message["id"].as_str().unwrap());
        let signature = headers["ralph-signature"].to_str().unwrap();
        // The check that README.md asks of receivers.
        let (at, signed) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
        assert!(at.parse::<u64>().unwrap() > 1_700_000_000, "{at}");
        let mut hmac = Hmac::<Sha256>::new_from_slice(b"s3cret").unwrap();
        hmac.update(at.as_bytes());
        hmac.update(b".");
        hmac.update(&body);
        let bytes = hmac.finalize().into_bytes();
        let expected: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(signed, expected);
        assert_eq!(message["feature"]["name"], "night");
        match message["event"].as_str().unwrap() {
            "person_needed" => assert_eq!(message["task"]["key"], "hard", "{message}"),
            _ => assert_eq!(message["run"]["outcome"], "blocked", "{message}"),
        }
        events.push(message["event"].as_str().unwrap().to_owned());
    }
    events.sort();
    assert_eq!(events, ["person_needed", "run_ended"]);
    let text = until("two notices of the command", async || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        match text.lines().count() {
            2 => Ok(text),
            _ => Err(text),
        }
    })
    .await;
    assert!(
        text.contains(" person_needed night\n") && text.contains(" run_ended night\n"),
        "{text}"
    );
    until("deliveries", async || {
        let open: i64 = sqlx::query_scalar("select count(*) from notices where closed_at is null")
            .fetch_one(&world.db)
            .await
            .unwrap();
        open == 0
    })
    .await;
    server.abort();
    drop(worker);
}

#[tokio::test]
async fn a_waiting_question_and_a_reached_limit_send_notices() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!("{{ cat; echo; }} >> {}", log.display());
    let asks = PromptOptions {
        people: true,
        ..PromptOptions::default()
    };
    let mut world = World::start_with(Settings {
        notify: Some(Notify {
            url: None,
            secret: None,
            command: vec!["sh".to_owned(), "-c".to_owned(), command],
            events: Vec::new(),
        }),
        question_wait: Duration::from_secs(600),
        templates: Arc::new(Templates::load(None, asks).unwrap()),
        ..Settings::default()
    })
    .await
    .unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w").slots(2)).unwrap();
    let mut options = FeatureOptions::default();
    let graph = "- key: a\n  title: A\n  description: \"@say <question>Which?</question>\"\n";
    world.submit("asking", None, graph, &options).await.unwrap();
    options.run.max_iterations = Some(1);
    let graph =
        "- {key: a, title: A, description: \"@done\"}\n- {key: b, title: B, description: \"@done\"}\n";
    let (_, run, _) = world.submit("limited", None, graph, &options).await.unwrap();
    world.ended(run).await.unwrap();
    wait_for_text(&log, "limit_reached").await;
    let text = wait_for_text(&log, "it asks: Which?").await;
    let messages: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let notice = |event: &str| {
        let found: Vec<&Value> = messages.iter().filter(|one| one["event"] == event).collect();
        assert_eq!(found.len(), 1, "{event}: {text}");
        found[0]
    };
    let asked = notice("person_needed");
    assert_eq!(
        (&asked["feature"]["name"], &asked["task"]["key"]),
        (&"asking".into(), &"a".into()),
        "{asked}"
    );
    let ended = notice("run_ended");
    assert_eq!(ended["feature"]["name"], "limited", "{ended}");
    assert_eq!(ended["run"]["outcome"], "limit_reached", "{ended}");
    drop(worker);
}

#[tokio::test]
async fn the_command_runs_once_while_the_url_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!("echo \"$RALPH_EVENT $RALPH_POOL\" >> {}", log.display());
    // Nothing listens on this port any more.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    drop(listener);
    let mut world = World::start_with(Settings {
        notify: Some(Notify {
            url: Some(url),
            secret: None,
            command: vec!["sh".to_owned(), "-c".to_owned(), command],
            events: Vec::new(),
        }),
        ..Settings::default()
    })
    .await
    .unwrap();
    sqlx::raw_sql(
        "insert into notices (id, event, pool, reason) values (gen_random_uuid(), 'pool_paused', 'night', '')",
    )
    .execute(&world.db)
    .await
    .unwrap();
    world.coordinator().await.unwrap();
    wait_for_text(&log, "pool_paused night").await;
    // Each try makes the notice due again at once.
    until("a second try of the address", async || {
        let tries: i32 =
            sqlx::query_scalar("update notices set next_at = least(next_at, now()) returning tries")
                .fetch_one(&world.db)
                .await
                .unwrap();
        tries >= 2
    })
    .await;
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
}
