//! Connects to Postgres, encrypted as far as the address asks and the server offers, like libpq.
//!
//! sqlx knows the modes, but treats `allow` like `disable`, does not fall back from `prefer`, and verifies
//! nothing with `require` and a root certificate. So a first connection tries the mode's alternatives in
//! order, and reports why none works.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use ralph_shared::tls::{self, TlsError};
use reqwest::Url;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{Connection as _, Error, PgPool};

/// Time limit of one attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Value of `sslrootcert` for the system's certificates.
const SYSTEM: &str = "system";

/// A server that accepted a connection.
#[derive(Debug, Clone)]
pub struct Server {
    pub(in crate::store) options: PgConnectOptions,
    /// Its address, without a login.
    pub at: String,
    /// Whether the connection was encrypted, or stays on this machine.
    is_private: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address, or a file that it names, is unusable.
    #[error("DATABASE_URL can't be used: {0}")]
    Address(String),
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server is away, or does not accept connections yet.
    #[error("Postgres at {at} can't be reached: {why}")]
    Away { at: String, why: String },
    #[error("Postgres at {at} refused the connection: {why}; is DATABASE_URL right?")]
    Refused { at: String, why: String },
}

impl ConnectError {
    /// Whether a later attempt may succeed without a change.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Away { .. })
    }

    pub(in crate::store) fn of(at: &str, error: Error) -> Self {
        let at = at.to_owned();
        match error {
            Error::Configuration(error) => Self::Address(error.to_string()),
            Error::Database(error) => {
                // The server starts, stops, or has no free connection.
                let passing = ["57P01", "57P02", "57P03", "53300"];
                let why = error.message().to_owned();
                match error.code().is_some_and(|code| passing.contains(&code.as_ref())) {
                    true => Self::Away { at, why },
                    false => Self::Refused { at, why },
                }
            }
            Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => Self::Away {
                at,
                why: "connection refused, nothing listens there".to_owned(),
            },
            // rustls reports certificate problems as read errors.
            Error::Io(error) if error.kind() == ErrorKind::InvalidData => Self::Refused {
                at,
                why: error.to_string(),
            },
            Error::Io(error) if error.kind() == ErrorKind::NotFound => Self::Away {
                at,
                why: format!("{error}: there is no such socket"),
            },
            Error::Io(error) => Self::Away {
                at,
                why: error.to_string(),
            },
            Error::Tls(error) => Self::Refused {
                at,
                why: format!("TLS: {error}"),
            },
            other => Self::Refused {
                at,
                why: other.to_string(),
            },
        }
    }
}

impl Server {
    /// Connects once in each mode that the address allows, and uses the first that works.
    pub async fn find(url: &str) -> Result<Self, ConnectError> {
        let target = ConnectionTarget::read(url, |name| {
            std::env::var(name).ok().filter(|text| !text.is_empty())
        })?;
        let mut refused: Option<ConnectError> = None;
        for mode in target.modes() {
            let options = target.options.clone().ssl_mode(*mode);
            let error = match open(&options).await {
                Ok(conn) => {
                    let _ = conn.close().await;
                    return Ok(target.into_server(*mode));
                }
                Err(error) => error,
            };
            let may_differ = is_about_encryption(&error);
            let error = ConnectError::of(&target.at, error);
            // Of two refusals, reports that of the preferred mode.
            let error = refused.take().unwrap_or(error);
            if !may_differ {
                return Err(error);
            }
            refused = Some(error);
        }
        Err(refused.unwrap_or_else(|| ConnectError::Address("it allows no connection".to_owned())))
    }

    /// Opens a new connection with this pool's options and returns its error, if any. The pool's own error
    /// only says that it timed out.
    pub async fn refusal(pool: &PgPool) -> Option<String> {
        let options = pool.connect_options();
        let error = open(&options).await.err()?;
        Some(ConnectError::of(&place(&options), error).to_string())
    }

    /// Warns of a connection to another machine in plain text.
    pub fn warn_of_plain_text(&self) {
        let host = self
            .at
            .rsplit_once(':')
            .map_or(self.at.as_str(), |(host, _)| host);
        if let Some(warning) = tls::plain_text_warning("Postgres", host).filter(|_| !self.is_private) {
            tracing::warn!("{warning}");
        }
    }
}

async fn open(options: &PgConnectOptions) -> Result<PgConnection, Error> {
    tokio::time::timeout(CONNECT_TIMEOUT, PgConnection::connect_with(options))
        .await
        .unwrap_or_else(|_| Err(Error::Io(ErrorKind::TimedOut.into())))
}

/// Whether a server may answer differently with or without encryption.
fn is_about_encryption(error: &Error) -> bool {
    match error {
        Error::Tls(_) => true,
        Error::Io(error) => !matches!(
            error.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::TimedOut | ErrorKind::NotFound
        ),
        // A rule of pg_hba.conf may apply to one of the two.
        Error::Database(error) => error.code().is_some_and(|code| code == "28000"),
        _ => false,
    }
}

/// Address of a server, without a login.
fn place(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None if options.get_host().starts_with('/') => options.get_host().to_owned(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

#[derive(Debug)]
struct ConnectionTarget {
    options: PgConnectOptions,
    mode: PgSslMode,
    at: String,
    is_socket: bool,
}

impl ConnectionTarget {
    /// The address takes precedence over the variables that libpq reads.
    fn read(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConnectError> {
        let mut options: PgConnectOptions = url
            .parse()
            .map_err(|error: Error| ConnectError::Address(error.to_string()))?;
        let address = Url::parse(url).ok();
        let parameter = |names: &[&str]| {
            let found = |(name, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
                names.contains(&name.as_ref()).then(|| value.into_owned())
            };
            address
                .as_ref()
                .and_then(|url| url.query_pairs().filter_map(found).last())
        };
        let chosen = |names: &[&str], name: &'static str| parameter(names).or_else(|| variable(name));
        let mode = match chosen(&["sslmode", "ssl-mode"], "PGSSLMODE") {
            Some(text) => text.parse().map_err(|_| {
                ConnectError::Address(format!(
                    "`{text}` is no sslmode; use disable, allow, prefer, require, verify-ca or verify-full"
                ))
            })?,
            None => PgSslMode::Prefer,
        };
        let root = chosen(&["sslrootcert", "ssl-root-cert", "ssl-ca"], "PGSSLROOTCERT");
        let mode = match (root.as_deref(), mode) {
            // A private authority is verified, as in libpq.
            (Some(root), PgSslMode::Require) if root != SYSTEM => PgSslMode::VerifyCa,
            (Some(SYSTEM), mode) if !matches!(mode, PgSslMode::VerifyFull) => {
                return Err(ConnectError::Address(
                    "sslrootcert=system proves nothing without the host's name; use sslmode=verify-full with it".to_owned(),
                ));
            }
            (_, mode) => mode,
        };
        let verifies = matches!(mode, PgSslMode::VerifyCa | PgSslMode::VerifyFull);
        match root.filter(|root| root != SYSTEM).map(PathBuf::from) {
            Some(root) if verifies => tls::check_certificates("sslrootcert", &root)?,
            Some(_) => {}
            None => {
                if let Some(authority) = tls::path(tls::CA_VARIABLE).filter(|_| verifies) {
                    tls::check_certificates(tls::CA_VARIABLE, &authority)?;
                    options = options.ssl_root_cert(authority);
                }
            }
        }
        let certificate = chosen(&["sslcert", "ssl-cert"], "PGSSLCERT").map(PathBuf::from);
        let key = chosen(&["sslkey", "ssl-key"], "PGSSLKEY").map(PathBuf::from);
        tls::client_certificate(("sslcert", certificate), ("sslkey", key))?;
        let is_socket = options.get_socket().is_some() || options.get_host().starts_with('/');
        let at = place(&options);
        Ok(Self {
            options,
            mode,
            at,
            is_socket,
        })
    }

    /// Modes to try, the preferred one first.
    fn modes(&self) -> &'static [PgSslMode] {
        if self.is_socket {
            return &[PgSslMode::Disable];
        }
        match self.mode {
            PgSslMode::Disable => &[PgSslMode::Disable],
            PgSslMode::Allow => &[PgSslMode::Disable, PgSslMode::Require],
            PgSslMode::Prefer => &[PgSslMode::Require, PgSslMode::Disable],
            PgSslMode::Require => &[PgSslMode::Require],
            PgSslMode::VerifyCa => &[PgSslMode::VerifyCa],
            PgSslMode::VerifyFull => &[PgSslMode::VerifyFull],
        }
    }

    fn into_server(self, mode: PgSslMode) -> Server {
        let is_encrypted = !matches!(mode, PgSslMode::Disable);
        // If encryption is not required, a server that loses its certificate later still works.
        let lasting_mode = match (self.mode, mode) {
            (PgSslMode::Prefer, PgSslMode::Require) => PgSslMode::Prefer,
            (_, mode) => mode,
        };
        Server {
            options: self.options.ssl_mode(lasting_mode),
            at: self.at,
            is_private: is_encrypted || self.is_socket,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn modes(url: &str, variable: Option<&str>) -> Result<String, String> {
        let read = |name: &str| {
            (name == "PGSSLMODE")
                .then(|| variable.map(str::to_owned))
                .flatten()
        };
        match ConnectionTarget::read(url, read) {
            Ok(target) => Ok(format!("{:?}", target.modes())),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn modes_are_tried_in_the_order_of_libpq() {
        for (query, tried) in [
            ("", "[Require, Disable]"),
            ("?sslmode=disable", "[Disable]"),
            ("?sslmode=allow", "[Disable, Require]"),
            ("?sslmode=prefer", "[Require, Disable]"),
            ("?sslmode=require", "[Require]"),
            ("?sslmode=verify-ca", "[VerifyCa]"),
            ("?sslmode=verify-full&sslrootcert=system", "[VerifyFull]"),
            ("?host=/run/postgresql&sslmode=verify-full", "[Disable]"),
        ] {
            assert_eq!(
                modes(&format!("postgres://u@h/d{query}"), None).unwrap(),
                tried,
                "{query}"
            );
        }
        assert_eq!(modes("postgres://u@h/d", Some("require")).unwrap(), "[Require]");
        assert_eq!(
            modes("postgres://u@h/d?sslmode=allow", Some("require")).unwrap(),
            "[Disable, Require]"
        );
    }

    #[test]
    fn unsafe_and_invalid_options_are_refused() {
        for (url, variable, expected) in [
            ("postgres://u@h/d", Some("requird"), "is no sslmode"),
            (
                "postgres://u@h/d?sslmode=require&sslrootcert=system",
                None,
                "sslmode=verify-full",
            ),
            (
                "postgres://u@h/d?sslmode=require&sslrootcert=/none",
                None,
                "sslrootcert",
            ),
            (
                "postgres://u@h/d?sslcert=/none",
                None,
                "sslcert is set without sslkey",
            ),
            ("nonsense", None, "DATABASE_URL can't be used"),
        ] {
            let error = modes(url, variable).unwrap_err();
            assert!(error.contains(expected), "{url}: {error}");
        }
    }
}
