//! How every process connects to NATS: for ever, since a broker that is away costs time only (DESIGN 1.1).

use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;

use crate::subjects::worker_inbox;

/// Longest pause between tries to connect.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// A connection that is silent for longer is asked whether it lives.
const PING: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The address can't be read. It isn't repeated, since it may hold a password.
    #[error(
        "NATS_URL is no address; expected nats://USER:PASSWORD@HOST:PORT, several with commas between them"
    )]
    Address(#[source] std::io::Error),
    /// The first connection failed in a way that waiting doesn't mend.
    #[error("failed to connect to NATS; is NATS_URL right?")]
    Connect(#[source] async_nats::ConnectError),
}

/// Hosts and ports of `url`, without users and passwords.
pub fn addresses(url: &str) -> String {
    let shown = |address: &str| match address.trim().parse::<ServerAddr>() {
        Ok(server) => format!("{}:{}", server.host(), server.port()),
        Err(_) => "an address that can't be read".to_owned(),
    };
    url.split(',').map(shown).collect::<Vec<_>>().join(", ")
}

/// Tries once to connect, and says why it fails; `None` when it doesn't.
pub async fn refusal(url: &str, name: &str) -> Option<String> {
    let (options, servers) = match options(url) {
        Ok(read) => read,
        Err(error) => return Some(error.to_string()),
    };
    let error = options.name(name).connect(servers).await.err()?;
    Some(match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            "it refused the user or the password".to_owned()
        }
        _ => error.to_string(),
    })
}

/// Connects as `name`. `url` is one address or several with commas between them; user and password stand in the first
/// that has any, percent-encoded.
///
/// # Errors
/// When the address is none. A broker that can't be reached is waited for.
pub async fn connect(url: &str, name: &str) -> Result<Client, BrokerError> {
    let (options, servers) = options(url)?;
    for_ever(options.name(name), servers).await
}

/// Connects as the worker of that name, which hears its answers on inboxes of its own.
///
/// # Errors
/// As [`connect`].
pub async fn connect_worker(url: &str, worker: &str) -> Result<Client, BrokerError> {
    let (options, servers) = options(url)?;
    let options = options
        .name(format!("ralph-worker {worker}"))
        .custom_inbox_prefix(worker_inbox(worker));
    for_ever(options, servers).await
}

async fn for_ever(options: ConnectOptions, servers: Vec<ServerAddr>) -> Result<Client, BrokerError> {
    options
        .retry_on_initial_connect()
        .max_reconnects(None)
        .reconnect_delay_callback(|tries| {
            let tries = u32::try_from(tries.min(100)).unwrap_or(100);
            (Duration::from_millis(50) * tries).min(MAX_PAUSE)
        })
        .ping_interval(PING)
        .connect(servers)
        .await
        .map_err(BrokerError::Connect)
}

/// The servers that `url` names, and how to log in there.
fn options(url: &str) -> Result<(ConnectOptions, Vec<ServerAddr>), BrokerError> {
    let servers: Vec<ServerAddr> = url
        .split(',')
        .map(|address| address.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(BrokerError::Address)?;
    let decoded = |text: Option<&str>| {
        percent_decode_str(text.unwrap_or_default())
            .decode_utf8_lossy()
            .into_owned()
    };
    let mut options = ConnectOptions::new();
    if let Some(server) = servers.iter().find(|server| server.has_user_pass()) {
        options = options.user_and_password(decoded(server.username()), decoded(server.password()));
    }
    Ok((options, servers))
}
