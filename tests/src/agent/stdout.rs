//! The agent's only writer of standard output, where raw bytes keep their place among the protocol's messages.
//!
//! The protocol's crate queues what it sends, so bytes written past it would overtake. A raw item therefore travels
//! through that queue as a marker notification, which this writer takes out and replaces.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error, JsonRpcResponse, UntypedMessage};
use futures::Sink;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const MARKER: &str = "_ralph_scripted_agent/raw";
/// A marker's line is shorter, and nearly every message's is longer and need not be searched.
const MARKER_LINE_SIZE_BYTES: usize = 128;

/// Queue of what takes the markers' places, in their order.
#[derive(Debug, Clone)]
pub(super) struct Stdout {
    raw: Arc<Mutex<VecDeque<Raw>>>,
    /// Told when nobody reads any more.
    broken: CancellationToken,
}

#[derive(Debug)]
enum Raw {
    Bytes(Vec<u8>),
    Written(oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
}

impl Stdout {
    pub(super) fn new(broken: CancellationToken) -> Self {
        Self {
            raw: Arc::default(),
            broken,
        }
    }

    /// Sends these bytes as they are.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn bytes(&self, cx: &ConnectionTo<Client>, bytes: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.mark(cx, Raw::Bytes(bytes.into()))
    }

    /// Waits until everything that was sent before is written.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn written(&self, cx: &ConnectionTo<Client>) -> Result<(), Error> {
        let (tell, told) = oneshot::channel();
        self.mark(cx, Raw::Written(tell))?;
        told.await.map_err(Error::into_internal_error)
    }

    /// Writes what was sent before, closes the pipe, and drops what is sent later.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn close(&self, cx: &ConnectionTo<Client>) -> Result<(), Error> {
        let (tell, told) = oneshot::channel();
        self.mark(cx, Raw::Close(tell))?;
        told.await.map_err(Error::into_internal_error)
    }

    /// Answers a request with a result that the protocol's crate would not let pass.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn answer<T: JsonRpcResponse>(
        &self,
        cx: &ConnectionTo<Client>,
        responder: Responder<T>,
        result: &Value,
    ) -> Result<(), Error> {
        let answer = json!({ "jsonrpc": "2.0", "id": responder.raw_id(), "result": result });
        self.bytes(cx, format!("{answer}\n"))?;
        // Dropped, it would answer once more.
        cx.spawn(async move {
            let _answered = responder;
            std::future::pending().await
        })
    }

    fn mark(&self, cx: &ConnectionTo<Client>, raw: Raw) -> Result<(), Error> {
        // Held while sending, so that markers and items have one order.
        let mut queue = self.raw.lock().unwrap_or_else(PoisonError::into_inner);
        cx.send_notification(UntypedMessage::new(MARKER, json!({}))?)?;
        queue.push_back(raw);
        Ok(())
    }

    /// Where the protocol's crate writes its lines.
    pub(super) fn sink(self) -> impl Sink<String, Error = io::Error> + Send + 'static {
        let sink = futures::sink::unfold(tokio::io::stdout(), move |mut out, line: String| {
            let stdout = self.clone();
            async move {
                // A reader that is gone ends the agent (or not) through `broken`; it is no error of the protocol.
                if let Err(_gone) = stdout.write(&mut out, line).await {
                    stdout.broken.cancel();
                }
                Ok(out)
            }
        });
        Box::pin(sink)
    }

    async fn write(&self, out: &mut tokio::io::Stdout, line: String) -> io::Result<()> {
        if !(line.len() < MARKER_LINE_SIZE_BYTES && line.contains(MARKER)) {
            let mut bytes = line.into_bytes();
            bytes.push(b'\n');
            out.write_all(&bytes).await?;
            return out.flush().await;
        }
        let raw = self
            .raw
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        match raw {
            Some(Raw::Bytes(bytes)) => {
                out.write_all(&bytes).await?;
                out.flush().await?;
            }
            Some(Raw::Written(tell)) => {
                let _ = tell.send(());
            }
            Some(Raw::Close(tell)) => {
                nix::unistd::dup2_stdout(std::fs::File::options().write(true).open("/dev/null")?)?;
                let _ = tell.send(());
            }
            None => {}
        }
        Ok(())
    }
}
