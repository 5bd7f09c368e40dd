//! TLS in front of the server, with certificates of an authority that nobody knows unless they are told.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Longest handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// An authority made for one test.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// What a server shows for itself.
#[derive(Clone)]
pub struct Certificate(Arc<ServerConfig>);

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// When its key can't be made.
    pub fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, pem })
    }

    /// Its own certificate, for those who are to trust it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate of a server or a client `name`, and its key, both in PEM.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn issue(&self, name: &str) -> io::Result<[String; 2]> {
        let mut params = CertificateParams::new([name.to_owned()]).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        Ok([certificate.pem(), key.serialize_pem()])
    }

    /// A certificate of the server `name`, that ended in the year 2001 if it is `over`.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn certify(&self, name: &str, over: bool) -> io::Result<Certificate> {
        let mut params = CertificateParams::new([name.to_owned()]).map_err(io::Error::other)?;
        if over {
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 1);
        }
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
            .map_err(io::Error::other)?;
        Ok(Certificate(Arc::new(config)))
    }
}

/// Takes TLS off every connection, and hands it on to `to` in plain text, for ever.
pub async fn terminate(listener: TcpListener, certificate: Certificate, to: SocketAddr) {
    let mut listener = TlsListener::new(listener, &certificate);
    loop {
        let (mut outer, _) = listener.accept().await;
        tokio::spawn(async move {
            let mut inner = TcpStream::connect(to).await?;
            tokio::io::copy_bidirectional(&mut outer, &mut inner).await
        });
    }
}

/// Connections that shook hands.
pub(crate) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl TlsListener {
    pub(crate) fn new(listener: TcpListener, certificate: &Certificate) -> Self {
        let acceptor = TlsAcceptor::from(certificate.0.clone());
        Self { listener, acceptor }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, from) = Listener::accept(&mut self.listener).await;
            // Who doesn't trust the certificate goes away in the middle.
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, self.acceptor.accept(stream)).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
