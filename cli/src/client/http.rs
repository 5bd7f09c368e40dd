//! Common setup of all HTTP clients.

use anyhow::Context as _;
use ralph_shared::file;
use ralph_shared::tls::{self, CA_VARIABLE};
use reqwest::{Certificate, ClientBuilder};

/// Builds a client that trusts the system's certificates, and those of the file in RALPH_CA_FILE.
pub fn builder() -> anyhow::Result<ClientBuilder> {
    tls::install();
    let builder = reqwest::Client::builder();
    let Some(path) = tls::path(CA_VARIABLE) else {
        return Ok(builder);
    };
    tls::check_certificates(CA_VARIABLE, &path)?;
    let text = file::read_text(&path, file::SMALL_BYTES)?;
    let certificates = Certificate::from_pem_bundle(text.as_bytes())
        .with_context(|| format!("{CA_VARIABLE}: {} can't be used", path.display()))?;
    Ok(builder.tls_certs_merge(certificates))
}
