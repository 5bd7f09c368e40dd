//! Costs for screens and scripts: submission of a large feature over the API, its status, and watchers.

use std::time::Duration;

use futures::future::try_join_all;
use serde_json::json;
use sqlx::PgPool;

use crate::figures::{Figures, Target};
use crate::http::Api;
use crate::load;
use crate::process::resident_bytes;
use crate::servers::Servers;
use crate::stub::now;
use crate::system::System;

/// A width of a thousand, with two blockers per task.
const WIDTH: usize = 1_000;
const WATCHERS: usize = 500;
const STATUSES: usize = 200;
/// An idle Postgres connection reports its row counts within ten seconds.
const WINDOW: Duration = Duration::from_secs(15);
const MIB: f64 = 1024.0 * 1024.0;

pub async fn front(servers: &Servers, figures: &mut Figures) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "front").await?;
    let coordinator = system.start_coordinator()?;
    system.until_served().await?;
    let api = system.api()?;

    let took = submit(&api, "ten", 10_000).await?;
    let name = "submit 10,000 tasks over the API";
    figures.at_most(name, "s", took, 2.0);

    let before = resident_bytes(coordinator)?;
    // One token may not hold that many streams.
    let other = api.with_new_token("other").await?;
    let apis = [&api, &other].into_iter().cycle();
    let watchers = apis.take(WATCHERS).map(|api| api.events("/features/ten/events"));
    let mut watchers = try_join_all(watchers).await?;
    try_join_all(watchers.iter_mut().map(|watcher| watcher.next())).await?;
    api.request("POST", "/tasks/ten%2Fk0/done", "{}").await?;
    try_join_all(watchers.iter_mut().map(|watcher| watcher.next())).await?;
    let more = resident_bytes(coordinator)?.saturating_sub(before);
    let name = "500 event-stream clients, coordinator's memory";
    figures.at_most(name, "MiB", more as f64 / MIB, 100.0);
    drop(watchers);

    submit(&api, "large", 100_000).await?;
    for key in ["k1", "k2", "k3"] {
        api.request(
            "POST",
            &format!("/tasks/large%2F{key}/fail"),
            r#"{"reason": "measured"}"#,
        )
        .await?;
    }
    let pool = system.pool(1).await?;
    sqlx::query("vacuum analyze").execute(&pool).await?;
    statuses(&api, &pool, figures).await?;
    pool.close().await;
    system.stop_coordinator().await;
    Ok(())
}

/// Reads the status of the large feature and of the system repeatedly.
async fn statuses(api: &Api, pool: &PgPool, figures: &mut Figures) -> anyhow::Result<()> {
    for (what, path) in [
        ("a feature", "/features/large/progress"),
        ("the system", "/status"),
    ] {
        let idle = rows_read(pool, async || Ok(())).await?;
        let mut times = Vec::with_capacity(STATUSES);
        let read = rows_read(pool, async || {
            for _ in 0..STATUSES {
                let began = now();
                api.request("GET", path, "").await?;
                times.push((now() - began) * 1_000.0);
            }
            Ok(())
        })
        .await?;
        times.sort_by(f64::total_cmp);
        for (which, at) in [("median", STATUSES / 2), ("99 of 100", STATUSES * 99 / 100)] {
            let name = format!("status of {what} at 100,000 tasks, {which}");
            figures.at_most(&name, "ms", times[at], 50.0);
        }
        let name = format!("status of {what} at 100,000 tasks, rows of tasks read");
        figures.add(&name, "rows", (read - idle).max(0.0) / STATUSES as f64);
        if what == "a feature" {
            figures.target(&name, Target::AtMost(50.0));
        }
    }
    Ok(())
}

/// Submits `n` tasks; returns the response time in seconds.
async fn submit(api: &Api, name: &str, n: usize) -> anyhow::Result<f64> {
    let text = load::layered(n / WIDTH, WIDTH);
    let body =
        json!({"name": name, "verify": false, "tasks": {"source": "tasks.json", "text": text}}).to_string();
    let began = now();
    api.request("POST", "/features", &body).await?;
    Ok(now() - began)
}

/// Rows of tasks that the database reads during `work` and the rest of the window.
async fn rows_read(pool: &PgPool, work: impl AsyncFnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let before = rows(pool).await?;
    let until = tokio::time::Instant::now() + WINDOW;
    work().await?;
    tokio::time::sleep_until(until).await;
    Ok(rows(pool).await? - before)
}

async fn rows(pool: &PgPool) -> sqlx::Result<f64> {
    sqlx::query_scalar(
        "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::float8
         from pg_stat_user_tables where relname in ('tasks', 'task_texts')",
    )
    .fetch_one(pool)
    .await
}
