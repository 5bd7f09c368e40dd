//! Readiness of a coordinator.

use std::sync::Arc;
use std::time::Duration;

use ralph_coordinator::services::{self, Deps, Pulse, Reserved};
use ralph_coordinator::{api, store};
use ralph_tests::harness::{World, until};
use sqlx::postgres::PgPoolOptions;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Longer than a round of one-second loops, shorter than a test's patience.
const LATE: Duration = Duration::from_millis(2_500);

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_with_stuck_loops_is_not_ready() {
    let world = World::start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/readyz", listener.local_addr().unwrap());
    let options = world.db.connect_options();
    let db = PgPoolOptions::new().max_connections(8);
    let db = db.connect_with((*options).clone()).await.unwrap();
    let deps = Deps {
        reserved: Reserved::shared(&db),
        db,
        bus: world.bus.clone(),
        settings: world.settings.clone(),
        pulse: Arc::new(Pulse::new(LATE)),
    };
    let shutdown = CancellationToken::new();
    let loops = tokio::spawn(services::serve(deps.clone(), shutdown.clone()));
    let server = tokio::spawn(api::serve(deps.clone(), listener, shutdown.clone()));
    ralph_shared::tls::install();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = async || {
        let response = http.get(&url).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    until("it is ready", async || answer().await.0 == 200).await;

    // The database answers, except for queries of features.
    let mut held = world.db.begin().await.unwrap();
    sqlx::query("lock table features in access exclusive mode")
        .execute(&mut *held)
        .await
        .unwrap();
    store::ping(&deps.db).await.unwrap();
    let reply = until("its loops are stuck", async || {
        let (status, reply) = answer().await;
        (status == 503).then_some(reply)
    })
    .await;
    assert!(reply.contains("its loop `"), "{reply}");

    held.rollback().await.unwrap();
    until("it is ready again", async || answer().await.0 == 200).await;
    shutdown.cancel();
    server.await.unwrap();
    loops.await.unwrap();
}
