//! TLS of all connections: the provider of cryptography, trusted certificates besides the system's, and a
//! warning about connections without TLS.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::file;

/// The variable with a file of certificates (PEM) of private authorities, for all connections of Ralph's.
pub const CA_VARIABLE: &str = "RALPH_CA_FILE";

/// A certificate or a key that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{0} names a file that can't be used")]
    File(String, #[source] std::io::Error),
    #[error("{0}: there is no {1} in {2}; it has to be in PEM, `-----BEGIN …-----`")]
    Empty(String, &'static str, PathBuf),
    #[error("{0} is set without {1}: a client certificate and its key belong together")]
    Half(&'static str, &'static str),
}

/// Makes *ring* the process's provider of cryptography, which every HTTP client needs before it is built. The
/// broker's client uses it already, so no second library is compiled. Safe to call often.
pub fn install() {
    // A provider that was installed before serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The path in a variable.
pub fn path(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable)?;
    (!path.is_empty()).then(|| path.into())
}

/// Checks that the file in `variable` has certificates, so that a wrong path fails at the start and not at
/// each connection.
///
/// # Errors
/// If it has none or can't be read.
pub fn check_certificates(variable: &str, path: &Path) -> Result<(), TlsError> {
    let text = read(variable, path)?;
    let mut certificates = CertificateDer::pem_slice_iter(text.as_bytes());
    match certificates.next() {
        Some(Ok(_)) if certificates.all(|further| further.is_ok()) => Ok(()),
        _ => Err(TlsError::Empty(
            variable.to_owned(),
            "certificate",
            path.to_owned(),
        )),
    }
}

/// The same for a private key.
///
/// # Errors
/// If it has none or can't be read.
pub fn check_key(variable: &str, path: &Path) -> Result<(), TlsError> {
    match PrivateKeyDer::from_pem_slice(read(variable, path)?.as_bytes()) {
        Ok(_) => Ok(()),
        Err(_) => Err(TlsError::Empty(
            variable.to_owned(),
            "private key",
            path.to_owned(),
        )),
    }
}

/// A client certificate and its key, if both are named.
///
/// # Errors
/// If only one of them is named, or one can't be used.
pub fn client_certificate(
    (certificate_variable, certificate): (&'static str, Option<PathBuf>),
    (key_variable, key): (&'static str, Option<PathBuf>),
) -> Result<Option<(PathBuf, PathBuf)>, TlsError> {
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(TlsError::Half(certificate_variable, key_variable)),
        (None, Some(_)) => Err(TlsError::Half(key_variable, certificate_variable)),
        (Some(certificate), Some(key)) => {
            check_certificates(certificate_variable, &certificate)?;
            check_key(key_variable, &key)?;
            Ok(Some((certificate, key)))
        }
    }
}

fn read(variable: &str, path: &Path) -> Result<String, TlsError> {
    file::read_text(path, file::SMALL_BYTES).map_err(|error| TlsError::File(variable.to_owned(), error))
}

/// Whether a connection to `host` stays on this machine.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A warning about a connection to `host` without TLS, if one is due; `what` is the server's kind.
pub fn plain_text_warning(what: &str, host: &str) -> Option<String> {
    (!is_loopback(host)).then(|| {
        format!(
            "the connection to {what} at {host} is in PLAIN TEXT: anybody on the network can read passwords, prompts and code; \
             docs/connections.md explains how to use TLS"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_that_leave_the_machine_get_a_warning() {
        for near in ["localhost", "127.0.0.1", "127.8.0.1", "::1", "[::1]"] {
            assert_eq!(plain_text_warning("NATS", near), None, "{near}");
        }
        for far in [
            "10.0.0.1",
            "nats",
            "localhost.example.org",
            "[fe80::1]",
            "127.0.0.1.nip.io",
        ] {
            assert!(plain_text_warning("NATS", far).is_some(), "{far}");
        }
    }
}
