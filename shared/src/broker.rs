//! Connects processes to NATS. They retry forever, since an unreachable broker costs only time (DESIGN 1.1).
//! Variables hold a login and certificates that the address lacks; they have the names of the `nats`
//! command's.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;

use crate::environment::{self, EnvironmentError};
use crate::file;
use crate::subjects::worker_inbox;
use crate::tls::{self, TlsError};

pub const DEFAULT_URL: &str = "nats://127.0.0.1:4222";

/// Longest pause between tries to connect.
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// A connection that is silent for longer is pinged.
const PING: Duration = Duration::from_secs(5);

/// A failure to connect.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The address isn't repeated, since it may hold a password.
    #[error(
        "NATS_URL is no valid address; expected nats://USER:PASSWORD@HOST:PORT, or several, separated by commas"
    )]
    Address(#[source] std::io::Error),
    /// The first connection failed, and waiting does not help.
    #[error("failed to connect to NATS; is NATS_URL right?")]
    Connect(#[source] async_nats::ConnectError),
    #[error("{0} names a file that can't be used")]
    Login(&'static str, #[source] io::Error),
    #[error("{0} and {1} are both set; a connection logs in in one way, so unset one of them")]
    Logins(&'static str, &'static str),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}

/// The reason of a failed try to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Waiting does not help.
    Final(String),
    /// The server may come back.
    Away(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Final(why) | Self::Away(why) => f.write_str(why),
        }
    }
}

/// The address of NATS: from NATS_URL, or from the file that NATS_URL_FILE names, else [`DEFAULT_URL`].
///
/// # Errors
/// If the variables are invalid.
pub fn url() -> Result<String, EnvironmentError> {
    Ok(environment::value("NATS_URL")?.unwrap_or_else(|| DEFAULT_URL.to_owned()))
}

/// Hosts and ports of `url`, without users and passwords.
pub fn addresses(url: &str) -> String {
    let shown = |address: &str| match address.trim().parse::<ServerAddr>() {
        Ok(server) => format!("{}:{}", server.host(), server.port()),
        Err(_) => "an address that can't be read".to_owned(),
    };
    url.split(',').map(shown).collect::<Vec<_>>().join(", ")
}

/// Tries once to connect, and returns the reason of a failure; `None` if it succeeds.
pub async fn refusal(url: &str, name: &str) -> Option<Refusal> {
    let (options, servers) = match options(url).await {
        Ok(read) => read,
        Err(error) => return Some(Refusal::Final(with_causes(&error))),
    };
    let error = options.name(name).connect(servers).await.err()?;
    Some(match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            Refusal::Final("it refused the user or the password".to_owned())
        }
        // A server that requires a client certificate ends the connection, which appears as a read error.
        ConnectErrorKind::Tls => Refusal::Final(with_causes(&error)),
        _ if is_tls(&error) => Refusal::Final(with_causes(&error)),
        ConnectErrorKind::TimedOut => Refusal::Away("it doesn't answer".to_owned()),
        _ => Refusal::Away(with_causes(&error)),
    })
}

fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if error.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<rustls::Error>()) {
            return true;
        }
        next = error.source();
    }
    false
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// Warns if this open connection leaves the machine without TLS.
pub fn warn_of_plain_text(client: &Client, url: &str) {
    let upgraded = client.server_info().tls_required;
    let servers = url
        .split(',')
        .filter_map(|address| address.trim().parse::<ServerAddr>().ok());
    for server in servers.filter(|server| !upgraded && !server.tls_required()) {
        if let Some(warning) = tls::plain_text_warning("NATS", server.host()) {
            tracing::warn!("{warning}");
        }
    }
}

/// Connects as `name`. `url` is one address, or several separated by commas; user and password are in the
/// first one that has any, percent-encoded.
///
/// # Errors
/// If the address is invalid. An unreachable broker is no error: the connection waits for it.
pub async fn connect(url: &str, name: &str) -> Result<Client, BrokerError> {
    let (options, servers) = options(url).await?;
    for_ever(options.name(name), servers).await
}

/// Connects as the worker `worker`, which gets its answers on inboxes of its own.
///
/// # Errors
/// As [`connect`].
pub async fn connect_worker(url: &str, worker: &str) -> Result<Client, BrokerError> {
    let (options, servers) = options(url).await?;
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

/// The servers in `url`, and the login for them.
async fn options(url: &str) -> Result<(ConnectOptions, Vec<ServerAddr>), BrokerError> {
    tls::install();
    let servers: Vec<ServerAddr> = url
        .split(',')
        .map(|address| address.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(BrokerError::Address)?;
    let mut options = log_in(ConnectOptions::new(), &servers).await?;
    let authorities = ["NATS_CA", tls::CA_VARIABLE];
    let authority = authorities
        .into_iter()
        .find_map(|name| Some((name, tls::path(name)?)));
    if let Some((name, path)) = authority {
        tls::check_certificates(name, &path)?;
        options = options.add_root_certificates(path);
    }
    let [certificate, key] = ["NATS_CERT", "NATS_KEY"].map(|name| (name, tls::path(name)));
    if let Some((certificate, key)) = tls::client_certificate(certificate, key)? {
        options = options.add_client_certificate(certificate, key);
    }
    Ok((options, servers))
}

/// The one login from the address and the variables.
async fn log_in(options: ConnectOptions, servers: &[ServerAddr]) -> Result<ConnectOptions, BrokerError> {
    let decoded = |text: Option<&str>| {
        percent_decode_str(text.unwrap_or_default())
            .decode_utf8_lossy()
            .into_owned()
    };
    let server = servers.iter().find(|server| server.username().is_some());
    let user = match server {
        Some(server) => Some((
            decoded(server.username()),
            server.password().map(|text| decoded(Some(text))),
        )),
        None => environment::value("NATS_USER")?.map(|user| (user, None)),
    };
    let password = environment::value("NATS_PASSWORD")?;
    let token = environment::value("NATS_TOKEN")?;
    let [credentials, seed]: [Option<PathBuf>; 2] = ["NATS_CREDS", "NATS_NKEY"].map(tls::path);
    let given = [
        ("NATS_CREDS", credentials.is_some()),
        ("NATS_NKEY", seed.is_some()),
        ("NATS_TOKEN", token.is_some()),
        (
            if server.is_some() {
                "a user in NATS_URL"
            } else {
                "NATS_USER"
            },
            user.is_some(),
        ),
    ];
    let mut given = given.iter().filter(|(_, is_given)| *is_given);
    if let (Some((one, _)), Some((other, _))) = (given.next(), given.next()) {
        return Err(BrokerError::Logins(one, other));
    }
    if let Some(path) = credentials {
        let text = read("NATS_CREDS", &path)?;
        return options.credentials(&text).map_err(|error| {
            let why = format!("{}: {error}", path.display());
            BrokerError::Login("NATS_CREDS", io::Error::new(error.kind(), why))
        });
    }
    if let Some(path) = seed {
        let text = read("NATS_NKEY", &path)?;
        // The seed may be between marks, and after comments.
        let line = text.lines().map(str::trim).find(|line| line.starts_with("SU"));
        let seed = line.ok_or_else(|| {
            let why = format!("{}: there is no seed of a user in it, `SU…`", path.display());
            BrokerError::Login("NATS_NKEY", io::Error::new(io::ErrorKind::InvalidData, why))
        })?;
        return Ok(options.nkey(seed.to_owned()));
    }
    if let Some(token) = token {
        return Ok(options.token(token));
    }
    Ok(match user {
        // An address such as nats://TOKEN@HOST holds a token.
        Some((token, None)) if server.is_some() && password.is_none() => options.token(token),
        Some((user, own)) => options.user_and_password(user, own.or(password).unwrap_or_default()),
        None => options,
    })
}

fn read(variable: &'static str, path: &Path) -> Result<String, BrokerError> {
    file::read_text(path, file::SMALL_BYTES).map_err(|error| BrokerError::Login(variable, error))
}
