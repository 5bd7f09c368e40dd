//! Waits for the servers that a coordinator needs, and logs which one is missing and why. Fails if waiting
//! can't help.

use std::time::{Duration, Instant};

use anyhow::bail;
use ralph_shared::broker::{self, Refusal};
use ralph_shared::subjects::Subjects;

use crate::api::Health;
use crate::bus::Bus;
use crate::store::{ConnectError, Server};

/// Pauses between two tries: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(3));
/// A repeated reason is logged again after this time.
const LOG_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Logs why the coordinator still waits, with growing pauses.
#[derive(Debug)]
struct Waiting<'a> {
    what: String,
    health: &'a Health,
    pause: Duration,
    last: Option<(String, Instant)>,
}

impl<'a> Waiting<'a> {
    fn for_(what: String, health: &'a Health) -> Self {
        health.waits_for(&what);
        Self {
            what,
            health,
            pause: PAUSES.0,
            last: None,
        }
    }

    async fn because(&mut self, why: String) {
        let known = self
            .last
            .as_ref()
            .is_some_and(|(last, at)| *last == why && at.elapsed() < LOG_AGAIN_AFTER);
        if !known {
            tracing::warn!("waiting for {}: {why}", self.what);
            self.health.waits_for(&format!("{}: {why}", self.what));
            self.last = Some((why, Instant::now()));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
    }
}

/// Waits for Postgres.
///
/// # Errors
/// When it refuses, for example the password or the database's name.
pub async fn postgres(url: &str, health: &Health) -> Result<Server, ConnectError> {
    let mut waiting = Waiting::for_("Postgres".to_owned(), health);
    loop {
        match Server::find(url).await {
            Ok(server) => return Ok(server),
            Err(error) if error.is_passing() => waiting.because(error.to_string()).await,
            Err(error) => return Err(error),
        }
    }
}

/// Waits for NATS, and creates missing streams.
///
/// # Errors
/// When NATS refuses the connection, or has no JetStream.
pub async fn bus(url: &str, subjects: &Subjects, health: &Health) -> anyhow::Result<Bus> {
    let at = broker::addresses(url);
    let mut waiting = Waiting::for_(format!("NATS at {at}"), health);
    loop {
        match broker::refusal(url, "ralph-coordinator").await {
            Some(Refusal::Away(why)) => waiting.because(why).await,
            Some(Refusal::Final(why)) => bail!(
                "NATS at {at} refused the connection: {why}; does NATS_URL name it as it has to be reached, with login and \
                 certificates (docs/connections.md)?"
            ),
            None => match Bus::connect(url, subjects.clone()).await {
                Err(error) if is_starting(&error) => waiting.because(format!("{error:#}")).await,
                connected => return connected,
            },
        }
    }
}

/// Whether JetStream may still come up: one server of a cluster first waits for the others.
fn is_starting(error: &anyhow::Error) -> bool {
    let text = format!("{error:#}");
    ["temporarily unavailable", "timed out"]
        .iter()
        .any(|part| text.contains(part))
}
