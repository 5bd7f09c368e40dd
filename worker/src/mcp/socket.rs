//! The socket of one session, and access to it.

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

const NAME: &str = "ralph.sock";
/// Connections at once. An agent has one.
const CONNECTIONS: usize = 4;
const MESSAGE_BYTES: usize = 1024 * 1024;
/// How long a connection may take to send the key.
const KEY_TIMEOUT: Duration = Duration::from_secs(5);

/// A socket, served until it is dropped.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    serving: tokio::task::JoinHandle<()>,
}

impl Socket {
    /// Opens a socket in a folder. Clients that send `key` get the tools.
    pub fn open(folder: &Path, key: Uuid, tools: Arc<Toolbox>) -> io::Result<Self> {
        let path = folder.join(NAME);
        // Uses a handle on the folder, because a socket's path has a short limit.
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
        // The folder is removed with the session, but an agent may have removed the socket before.
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
    let read = tokio::time::timeout(KEY_TIMEOUT, stream.read_exact(&mut shown)).await;
    // A timing attack is useless: a client without the key can't guess 122 bits.
    if !matches!(read, Ok(Ok(_))) || shown != line.as_bytes() {
        tools.note("a client without the key was refused at the session's tools");
        return;
    }
    let (read, write) = stream.into_split();
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MESSAGE_BYTES);
    match Server::new(tools).serve(transport).await {
        Ok(service) => drop(service.waiting().await),
        Err(error) => tracing::debug!(%error, "an agent's MCP client did not begin as the protocol asks"),
    }
}

#[cfg(test)]
mod tests {
    use ralph_shared::kind::SessionKind;
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

    use super::*;
    use crate::mcp::tools::tests::toolbox;

    /// Sends a key and these messages. Returns the answers until each message has one or the connection ends.
    async fn send(socket: &Socket, key: Uuid, messages: &[Value]) -> Vec<Value> {
        let (read, mut write) = UnixStream::connect(socket.path()).await.unwrap().into_split();
        let mut lines = BufReader::new(read).lines();
        let mut answers = Vec::new();
        let mut text = format!("{key}\n");
        for message in messages {
            text.push_str(&format!("{message}\n"));
            // The other side may have closed the connection.
            let is_open = write.write_all(text.as_bytes()).await.is_ok();
            text.clear();
            if message["id"].is_null() {
                continue;
            }
            match lines.next_line().await {
                Ok(Some(line)) if is_open => answers.push(serde_json::from_str(&line).unwrap()),
                _ => break,
            }
        }
        answers
    }

    fn begin(version: &str) -> [Value; 2] {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        [
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ]
    }

    fn call(id: u32, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    }

    async fn assert_works(socket: &Socket, key: Uuid, version: &str) {
        let [begin, begun] = begin(version);
        let answers = send(socket, key, &[begin, begun, call(1, "task_context", json!({}))]).await;
        assert!(
            answers[0]["result"]["protocolVersion"].is_string(),
            "{version}: {answers:?}"
        );
        assert!(
            answers[1].to_string().contains("Do it."),
            "{version}: {answers:?}"
        );
    }

    #[tokio::test]
    async fn a_client_of_any_version_is_served() {
        let (folder, key) = (tempfile::tempdir().unwrap(), Uuid::new_v4());
        let socket = Socket::open(folder.path(), key, Arc::new(toolbox(SessionKind::Work))).unwrap();
        for version in ["2024-11-05", "2025-06-18", "1999-01-01", "2199-01-01"] {
            assert_works(&socket, key, version).await;
        }
    }

    /// Sends these messages, closes its side, and waits until the other side closes.
    async fn send_and_close(socket: &Socket, key: Uuid, messages: &[Value]) {
        let (mut read, mut write) = UnixStream::connect(socket.path()).await.unwrap().into_split();
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        // The other side may have closed the connection already.
        let _ = write.write_all(format!("{key}\n{text}").as_bytes()).await;
        drop(write);
        let _ = read.read_to_end(&mut Vec::new()).await;
    }

    #[tokio::test]
    async fn an_invalid_message_ends_only_its_own_connection() {
        let (folder, key) = (tempfile::tempdir().unwrap(), Uuid::new_v4());
        let socket = Socket::open(folder.path(), key, Arc::new(toolbox(SessionKind::Work))).unwrap();
        let [begin, begun] = begin("2025-06-18");
        let text = "x".repeat(10 << 20);
        let long = call(1, "memory_add", json!({"kind": "note", "text": text}));
        for messages in [
            vec![begin.clone(), begun.clone(), long],
            vec![json!({"id": 1}), json!([1, 2])],
            vec![call(1, "task_context", json!({}))],
            vec![
                begin.clone(),
                begun,
                json!({"jsonrpc": "2.0", "id": 1, "method": "nothing"}),
            ],
        ] {
            send_and_close(&socket, key, &messages).await;
            assert_works(&socket, key, "2025-06-18").await;
        }
        let stranger = send(&socket, Uuid::new_v4(), &[begin]).await;
        assert_eq!(stranger, Vec::<Value>::new());
        assert_works(&socket, key, "2025-06-18").await;
    }
}
