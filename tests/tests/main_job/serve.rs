//! `serve` and `up` on servers that are shared, of another release, or unavailable.

use std::process::Command;
use std::sync::Arc;

use ralph_coordinator::embedded::Role;
use ralph_coordinator::services::{self, Deps, Reserved};
use ralph_coordinator::store;
use ralph_tests::harness::{Spawned, WorkerOptions, World, binary, until};
use tokio_util::sync::CancellationToken;

/// A command of the coordinator that uses this world's servers.
fn command(world: &World, args: &[&str]) -> Command {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args)
        .current_dir(world.dir())
        .env("RALPH_LISTEN", "127.0.0.1:0")
        .env("DATABASE_URL", world.postgres.as_ref().unwrap().url())
        .env("NATS_URL", world.nats_url(Role::Coordinator).unwrap());
    command
}

/// Output of a command that must fail by itself.
async fn failing_output(world: &World, name: &str, mut command: Command) -> String {
    let mut process = Spawned::start(&mut command, &world.dir().join(name)).unwrap();
    let status = process.wait().await;
    let text = process.output();
    assert!(!status.success(), "{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_later_release_is_refused() {
    let world = World::calm().await.unwrap();
    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values (9000, 'of a later release', true, '\\x00', 0)",
    )
    .execute(&world.db)
    .await
    .unwrap();
    for (name, args) in [
        ("serve", &["serve"] as &[&str]),
        ("serve-migrate", &["serve", "--migrate"]),
        ("migrate", &["migrate"]),
        ("up", &["up", "--workers", "0"]),
    ] {
        let text = failing_output(&world, name, command(&world, args)).await;
        assert!(
            text.contains("made by another release") && text.contains("step 9000") && text.contains("--data"),
            "{name}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_a_server_ends_the_start_and_names_the_variable() {
    let world = World::calm().await.unwrap();
    let at = ralph_shared::broker::addresses(&world.nats_url(Role::Coordinator).unwrap());
    let database = world.postgres.as_ref().unwrap().url();
    for (name, variable, value, expected) in [
        (
            "broker",
            "NATS_URL",
            format!("nats://somebody:wrong@{at}"),
            format!("NATS at {at} refused the connection: it refused the user or the password"),
        ),
        (
            "password",
            "DATABASE_URL",
            database.replacen("ralph:", "ralph:not-", 1),
            "password authentication failed".to_owned(),
        ),
        (
            "database",
            "DATABASE_URL",
            database.replacen("/ralph?", "/no_such_database?", 1),
            "database \"no_such_database\" does not exist".to_owned(),
        ),
        (
            "certificate",
            "NATS_CA",
            "no-such-file".to_owned(),
            "NATS_CA names a file that can't be used".to_owned(),
        ),
    ] {
        let mut serve = command(&world, &["serve"]);
        serve.env(variable, value);
        let text = failing_output(&world, name, serve).await;
        assert!(
            text.contains(&expected) && text.contains(variable),
            "{name}: {text}"
        );
        assert!(
            !text.contains("somebody:wrong") && !text.contains("not-"),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_waits_for_missing_servers_until_they_come_or_it_stops() {
    let world = World::calm().await.unwrap();
    let free = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let health = free();
    let nats = ralph_shared::broker::addresses(&world.nats_url(Role::Coordinator).unwrap());
    let (database_front, broker_front) = (free(), free());
    let mut serve = command(&world, &["serve"]);
    serve
        .env("RALPH_HEALTH_LISTEN", health.to_string())
        .env("DATABASE_URL", format!("postgres://ralph@{database_front}/ralph"));
    let mut stopped = Spawned::start(&mut serve, &world.dir().join("stopped")).unwrap();
    until("the reason of the wait", async || {
        let text = stopped.output();
        let waits = format!(
            "waiting for Postgres: Postgres at {database_front} can't be reached: connection refused"
        );
        text.contains(&waits).then_some(()).ok_or(text)
    })
    .await;
    ralph_shared::tls::install();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = async |path: &str| {
        let answer = http.get(format!("http://{health}{path}")).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(get("/healthz").await.0, 200);
    let (status, text) = get("/readyz").await;
    assert!(status == 503 && text.contains("it waits for Postgres"), "{text}");
    stopped.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(stopped.wait().await.success(), "{}", stopped.output());

    let mut serve = command(&world, &["serve"]);
    let url = world.nats_url(Role::Coordinator).unwrap();
    serve
        .env("RALPH_HEALTH_LISTEN", health.to_string())
        .env("NATS_URL", url.replace(&nats, &broker_front.to_string()));
    let comes = Spawned::start(&mut serve, &world.dir().join("comes")).unwrap();
    until("the wait for the broker", async || {
        let text = comes.output();
        text.contains(&format!("waiting for NATS at {broker_front}"))
            .then_some(())
            .ok_or(text)
    })
    .await;
    let listener = tokio::net::TcpListener::bind(broker_front).await.unwrap();
    let front = tokio::spawn(async move {
        loop {
            let (mut outer, _) = listener.accept().await.unwrap();
            let mut inner = tokio::net::TcpStream::connect(&nats).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut outer, &mut inner).await });
        }
    });
    until("it is ready", async || get("/readyz").await.0 == 200).await;
    drop(comes);
    front.abort();
}

/// Heartbeats have connections that the API and the other loops can't take.
#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_are_answered_while_all_other_connections_are_taken() {
    let world = World::start().await.unwrap();
    let url = world.postgres.as_ref().unwrap().url();
    let (db, first) = (
        store::connect(&url, 1).await.unwrap(),
        store::connect(&url, 2).await.unwrap(),
    );
    let held = db.acquire().await.unwrap();
    let deps = Deps {
        db,
        reserved: Reserved::shared(&first),
        bus: world.bus.clone(),
        settings: world.settings.clone(),
        pulse: Arc::default(),
    };
    let shutdown = CancellationToken::new();
    let loops = tokio::spawn(services::serve(deps, shutdown.clone()));
    let _worker = world.worker(&WorkerOptions::named("w")).unwrap();
    let beats = "select count(*) = 1 from workers where $1 <> incarnation and seen_at > started_at + interval '1 second'";
    world.until(beats, uuid::Uuid::nil()).await.unwrap();
    drop(held);
    shutdown.cancel();
    loops.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_two_coordinators_on_the_same_servers_both_work() {
    let world = World::calm().await.unwrap();
    let serve = |name: &str| {
        let file = world.dir().join(format!("{name}.token"));
        std::fs::write(&file, format!("a-token-of-{name}-alone")).unwrap();
        let mut command = command(&world, &["serve", "--token-file"]);
        command.arg(file);
        Spawned::start(&mut command, &world.dir().join(format!("{name}.log"))).unwrap()
    };
    let _both = [serve("one"), serve("two")];
    let valid =
        "select count(*) = 2 from api_tokens where id <> $1 and role = 'admin' and revoked_at is null";
    world.until(valid, uuid::Uuid::nil()).await.unwrap();
}
