//! The server: who may come in, what goes to git, what goes wrong.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::backend::{self, Request};
use crate::faults::{Fault, Faults, Service};
use crate::tls::{Certificate, TlsListener};

/// Who may come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Login {
    /// A login of these two.
    pub fn new(user: &str, password: &str) -> Self {
        Self {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }

    fn header(&self) -> String {
        let login = BASE64_STANDARD.encode(format!("{}:{}", self.user, self.password));
        format!("Basic {login}")
    }
}

/// A running server on a port of the loopback; it ends with this value.
pub struct GitServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// It speaks HTTPS with this one.
    certificate: Option<Certificate>,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    login: Login,
    faults: Faults,
}

impl Shared {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock()
    }
}

impl GitServer {
    /// Serves the bare repositories below `root` to `login`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(root: &Path, login: Login) -> io::Result<Self> {
        Self::start_with(root, login, None).await
    }

    /// The same over HTTPS; the certificate is of `localhost`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_with(root: &Path, login: Login, certificate: Option<Certificate>) -> io::Result<Self> {
        let inside = Inside {
            login,
            faults: Faults::default(),
        };
        let shared = Arc::new(Shared {
            root: root.to_owned(),
            inside: Mutex::new(inside),
        });
        let (address, task) = serve(&shared, "127.0.0.1:0", certificate.as_ref()).await?;
        Ok(Self {
            shared,
            address,
            certificate,
            task: Some(task),
        })
    }

    /// The address of a repository by its path below the root, without a login.
    pub fn url(&self, repository: &str) -> String {
        match self.certificate {
            None => format!("http://{}/{repository}", self.address),
            Some(_) => format!("https://localhost:{}/{repository}", self.address.port()),
        }
    }

    /// Shows another certificate from when it next comes back.
    pub fn show(&mut self, certificate: Certificate) {
        self.certificate = Some(certificate);
    }

    /// From now on only this login is let in.
    pub fn let_in(&self, login: Login) {
        self.shared.inside().login = login;
    }

    /// The next requests for `service` whose body holds `about` (a ref's name; anything when empty) meet the fault.
    pub fn fault(&self, fault: Fault, service: Service, about: &str, times: u32) {
        self.shared.inside().faults.arm(fault, service, about, times);
    }

    /// Takes back all faults.
    pub fn heal(&self) {
        self.shared.inside().faults.disarm();
    }

    /// Goes away: connections are refused.
    pub async fn go_away(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }

    /// Comes back on the same port.
    ///
    /// # Errors
    /// When somebody else has the port now.
    pub async fn come_back(&mut self) -> io::Result<()> {
        self.go_away().await;
        let address = self.address.to_string();
        let (_, task) = serve(&self.shared, &address, self.certificate.as_ref()).await?;
        self.task = Some(task);
        Ok(())
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn serve(
    shared: &Arc<Shared>,
    address: &str,
    certificate: Option<&Certificate>,
) -> io::Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let app = axum::Router::new()
        .fallback(handle)
        .layer(DefaultBodyLimit::disable())
        .with_state(shared.clone());
    // Only aborted.
    let task = match certificate {
        None => tokio::spawn(async move { drop(axum::serve(listener, app).await) }),
        Some(certificate) => {
            let listener = TlsListener::new(listener, certificate);
            tokio::spawn(async move { drop(axum::serve(listener, app).await) })
        }
    };
    Ok((address, task))
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let service = match uri.path().ends_with("/git-receive-pack") {
        true => Service::Push,
        false => Service::Fetch,
    };
    let (login, fault) = {
        let mut inside = shared.inside();
        (inside.login.clone(), inside.faults.hit(service, &body))
    };
    match fault {
        Some(Fault::Status(status)) => {
            return StatusCode::from_u16(status)
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
                .into_response();
        }
        Some(Fault::HangUpBefore) => return hang_up(),
        Some(Fault::HangUpAfter) | None => {}
    }
    let given = headers.get(header::AUTHORIZATION);
    if given.is_none_or(|given| given.as_bytes() != login.header().as_bytes()) {
        let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"git\"")];
        return (StatusCode::UNAUTHORIZED, ask).into_response();
    }
    let request = Request {
        method: method.as_str(),
        path: uri.path(),
        query: uri.query().unwrap_or_default(),
        headers: &headers,
        user: &login.user,
        body: &body,
    };
    let answer = backend::run(&shared.root, request).await;
    match (fault, answer) {
        (Some(Fault::HangUpAfter), _) => hang_up(),
        (_, Ok(answer)) => answer,
        (_, Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// An answer that ends its connection in the middle.
fn hang_up() -> Response<Body> {
    let end = futures::stream::once(async { Err::<Bytes, _>(io::Error::other("hung up")) });
    Response::new(Body::from_stream(end))
}
