//! Waits for the servers that a coordinator needs, and says for which one and why. What waiting doesn't mend ends it.

use std::time::{Duration, Instant};

use anyhow::bail;
use ralph_shared::broker::{self, Refusal};
use ralph_shared::subjects::Subjects;

use crate::api::Health;
use crate::bus::Bus;
use crate::store::{ConnectError, Server};

/// Pauses between two tries: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(3));
/// The same reason is told again after so long.
const SAY_AGAIN: Duration = Duration::from_secs(30);

/// Tells why it still waits, and makes a pause that grows.
#[derive(Debug)]
struct Waiting<'a> {
    what: String,
    health: &'a Health,
    pause: Duration,
    told: Option<(String, Instant)>,
}

impl<'a> Waiting<'a> {
    fn for_(what: String, health: &'a Health) -> Self {
        health.waits_for(&what);
        Self {
            what,
            health,
            pause: PAUSES.0,
            told: None,
        }
    }

    async fn because(&mut self, why: String) {
        let known = self
            .told
            .as_ref()
            .is_some_and(|(told, at)| *told == why && at.elapsed() < SAY_AGAIN);
        if !known {
            tracing::warn!("waiting for {}: {why}", self.what);
            self.health.waits_for(&format!("{}: {why}", self.what));
            self.told = Some((why, Instant::now()));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
    }
}

/// Waits for Postgres.
///
/// # Errors
/// When it refuses: the password, say, or the database's name.
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

/// Waits for NATS, and makes sure that the streams are there.
///
/// # Errors
/// When it refuses, or keeps no streams.
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

/// Whether JetStream may come: a server of several waits for the others first.
fn is_starting(error: &anyhow::Error) -> bool {
    let text = format!("{error:#}");
    ["temporarily unavailable", "timed out"]
        .iter()
        .any(|said| text.contains(said))
}
