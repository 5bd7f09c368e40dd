//! Whether a coordinator answers health checks under thousands of half-sent requests, and with a stopped
//! database.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::figures::Figures;
use crate::servers::Servers;
use crate::stub::now;
use crate::system::System;

/// All from one address.
const CONNECTIONS: usize = 5_000;
/// Duration of the flood before the measurement.
const BEFORE: Duration = Duration::from_secs(3);
const REQUESTS: usize = 100;
const BETWEEN: Duration = Duration::from_millis(20);
/// A request that takes longer has failed.
const TIME_LIMIT: Duration = Duration::from_secs(5);
const HALF: &[u8] = b"GET /api/v1/status HTTP/1.1\r\nHost: bench\r\nAuthorization: Bear";
const WHOLE: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";

pub async fn flood(servers: &Servers, figures: &mut Figures) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "flood").await?;
    system.start_coordinator()?;
    system.until_served().await?;
    let (api, health) = (system.api()?, system.health()?);
    // The coordinator has started with the original limit.
    raise_open_files()?;
    let mut flood = JoinSet::new();
    for _ in 0..CONNECTIONS {
        flood.spawn(half(api.address));
    }
    tokio::time::sleep(BEFORE).await;
    let flooded = "healthz under 5,000 half-sent requests";
    measured(figures, flooded, health).await?;
    if let Some(stopped) = servers.stop_postgres()? {
        // Requests that wait for the database fill every pool.
        tokio::time::sleep(BEFORE).await;
        measured(figures, &format!("{flooded}, database stopped"), health).await?;
        drop(stopped);
    }
    flood.shutdown().await;
    system
        .until("the API answers again", async || {
            Ok(api.request("GET", "/status", "").await.is_ok())
        })
        .await?;
    system.stop_coordinator().await;
    Ok(())
}

async fn measured(figures: &mut Figures, what: &str, health: SocketAddr) -> anyhow::Result<()> {
    // On a separate thread, so that the flood's tasks don't delay it.
    let mut times = tokio::task::spawn_blocking(move || response_times(health)).await??;
    times.sort_by(f64::total_cmp);
    for (which, at) in [("median", REQUESTS / 2), ("most of 100", REQUESTS - 1)] {
        let name = format!("{what}, {which}");
        figures.at_most(&name, "ms", times[at], 100.0);
    }
    Ok(())
}

fn response_times(health: SocketAddr) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let began = now();
        let mut stream =
            TcpStream::connect_timeout(&health, TIME_LIMIT).context("/healthz refuses connections")?;
        stream.set_read_timeout(Some(TIME_LIMIT))?;
        stream.write_all(WHOLE)?;
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .context("no answer to /healthz")?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "/healthz answers {answer}");
        times.push((now() - began) * 1_000.0);
        std::thread::sleep(BETWEEN);
    }
    Ok(times)
}

/// Sends half a request and waits; when the connection closes, opens the next.
async fn half(api: SocketAddr) {
    loop {
        let sent = async {
            let mut stream = tokio::net::TcpStream::connect(api).await?;
            stream.write_all(HALF).await?;
            stream.read_to_end(&mut Vec::new()).await
        };
        if sent.await.is_err() {
            tokio::time::sleep(BETWEEN).await;
        }
    }
}

fn raise_open_files() -> anyhow::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    ensure!(
        hard > CONNECTIONS as u64 + 100,
        "{hard} open files are too few for {CONNECTIONS} connections: raise the hard limit (`ulimit -Hn`)"
    );
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(())
}
