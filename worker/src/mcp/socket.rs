//! The socket of one session, and who may speak there.

use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::AsyncReadExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::server::Server;
use super::tools::Toolbox;

/// The socket's name.
const NAME: &str = "ralph.sock";
/// Connections at once; an agent has one.
const CONNECTIONS: usize = 4;
/// Longest message. Bytes.
const MESSAGE_BYTES: usize = 1024 * 1024;
/// How long a connection may take to show the key.
const PATIENCE: Duration = Duration::from_secs(5);

/// A socket that is served until it is dropped.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    serving: tokio::task::JoinHandle<()>,
}

impl Socket {
    /// Opens one in a folder. Whoever shows `key` gets the tools.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn open(folder: &Path, key: Uuid, tools: Arc<Toolbox>) -> io::Result<Self> {
        let path = folder.join(NAME);
        // By a handle on the folder: the path of a socket has a short limit.
        let handle = std::fs::File::open(folder)?;
        let short = format!("/proc/self/fd/{}/{NAME}", handle.as_raw_fd());
        let listener = UnixListener::bind(short)?;
        Ok(Self {
            path,
            serving: tokio::spawn(serve(listener, key, tools)),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.serving.abort();
        // The folder goes with the session; an agent may have removed it before.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn serve(listener: UnixListener, key: Uuid, tools: Arc<Toolbox>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let tools = Arc::clone(&tools);
                connections.spawn(async move {
                    let _place = place;
                    connection(stream, key, tools).await;
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection to a session's tools failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(mut stream: UnixStream, key: Uuid, tools: Arc<Toolbox>) {
    let line = format!("{key}\n");
    let mut shown = vec![0; line.len()];
    let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut shown)).await;
    // The time that this takes tells nothing: who may connect and doesn't know the key can't guess 122 bits.
    if !matches!(read, Ok(Ok(_))) || shown != line.as_bytes() {
        tools.note("somebody without its key was refused at the session's tools");
        return;
    }
    let (read, write) = stream.into_split();
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MESSAGE_BYTES);
    match Server::new(tools).serve(transport).await {
        Ok(service) => drop(service.waiting().await),
        Err(error) => tracing::debug!(%error, "an agent's MCP client did not begin as the protocol asks"),
    }
}
