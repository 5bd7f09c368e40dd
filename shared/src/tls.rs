//! TLS of every connection: the provider of cryptography, whose certificates are trusted besides the system's, and a warning where a
//! connection goes without.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::file;

/// The variable with a file of certificates (PEM) of private authorities, for all connections of Ralph's.
pub const CA_VARIABLE: &str = "RALPH_CA_FILE";

/// Why a certificate or a key can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file can't be read.
    #[error("{0} names a file that can't be used")]
    File(String, #[source] std::io::Error),
    /// It is read, and has none.
    #[error("{0}: there is no {1} in {2}; it has to be in PEM, `-----BEGIN …-----`")]
    Empty(String, &'static str, PathBuf),
    /// Two variables belong together.
    #[error("{0} is set without {1}: a client certificate and its key belong together")]
    Half(&'static str, &'static str),
}

/// Makes *ring* the process's provider of cryptography, which every HTTP client needs before it is built; the broker's client
/// uses it already, so no second library is compiled. Safe to call often.
pub fn install() {
    // Somebody installed one before: that one serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The path that a variable names.
pub fn path(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable)?;
    (!path.is_empty()).then(|| path.into())
}

/// Makes sure that the file which `variable` names has certificates, so that a wrong path ends the start and not each connection.
///
/// # Errors
/// When it has none or can't be read.
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
/// When it has none or can't be read.
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

/// A client certificate and its key, where both are named.
///
/// # Errors
/// When only one of them is named, or one can't be used.
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

/// Whether nothing leaves this machine on the way to `host`.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// What is to be said of a connection to `host` without TLS, if anything; `what` is the server's kind.
pub fn plain_text_warning(what: &str, host: &str) -> Option<String> {
    (!is_loopback(host)).then(|| {
        format!(
            "{what} at {host} is spoken to in PLAIN TEXT: whoever sees the network reads passwords, prompts and code; \
             docs/connections.md tells how to use TLS"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leaves_the_machine_is_warned_of() {
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
