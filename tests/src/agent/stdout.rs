//! The agent's only writer of standard output. It writes raw bytes in order with the protocol's messages.
//!
//! The protocol's crate queues its messages, so bytes written directly would overtake them. A raw item
//! therefore enters that queue as a marker notification, which this writer replaces by the item.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error, JsonRpcResponse, UntypedMessage};
use futures::Sink;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const MARKER: &str = "_ralph_scripted_agent/raw";
/// A marker's line is shorter than this; nearly every message's line is longer, and needs no search.
const MARKER_LINE_SIZE_BYTES: usize = 128;

/// Queue of the items that replace markers, in order.
#[derive(Debug, Clone)]
pub(super) struct Stdout {
    raw: Arc<Mutex<VecDeque<Raw>>>,
    /// Cancelled when there is no reader any more.
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

    /// Sends raw bytes.
    pub(super) fn bytes(&self, cx: &ConnectionTo<Client>, bytes: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.mark(cx, Raw::Bytes(bytes.into()))
    }

    /// Waits until all earlier output is written.
    pub(super) async fn written(&self, cx: &ConnectionTo<Client>) -> Result<(), Error> {
        let (sender, written) = oneshot::channel();
        self.mark(cx, Raw::Written(sender))?;
        written.await.map_err(Error::into_internal_error)
    }

    /// Writes earlier output, closes the pipe, and drops later output.
    pub(super) async fn close(&self, cx: &ConnectionTo<Client>) -> Result<(), Error> {
        let (sender, closed) = oneshot::channel();
        self.mark(cx, Raw::Close(sender))?;
        closed.await.map_err(Error::into_internal_error)
    }

    /// Responds to a request with a result that the protocol's crate would reject.
    pub(super) fn answer<T: JsonRpcResponse>(
        &self,
        cx: &ConnectionTo<Client>,
        responder: Responder<T>,
        result: &Value,
    ) -> Result<(), Error> {
        let answer = json!({ "jsonrpc": "2.0", "id": responder.raw_id(), "result": result });
        self.bytes(cx, format!("{answer}\n"))?;
        // Dropping the responder would send a second response.
        cx.spawn(async move {
            let _answered = responder;
            std::future::pending().await
        })
    }

    fn mark(&self, cx: &ConnectionTo<Client>, raw: Raw) -> Result<(), Error> {
        // Locked while sending, so that markers and items have the same order.
        let mut queue = self.raw.lock();
        cx.send_notification(UntypedMessage::new(MARKER, json!({}))?)?;
        queue.push_back(raw);
        Ok(())
    }

    /// The sink for the lines of the protocol's crate.
    pub(super) fn sink(self) -> impl Sink<String, Error = io::Error> + Send + 'static {
        let sink = futures::sink::unfold(tokio::io::stdout(), move |mut out, line: String| {
            let stdout = self.clone();
            async move {
                // A missing reader ends the agent (or not) through `broken`; it is no protocol error.
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
        let raw = self.raw.lock().pop_front();
        match raw {
            Some(Raw::Bytes(bytes)) => {
                out.write_all(&bytes).await?;
                out.flush().await?;
            }
            Some(Raw::Written(sender)) => {
                let _ = sender.send(());
            }
            Some(Raw::Close(sender)) => {
                nix::unistd::dup2_stdout(std::fs::File::options().write(true).open("/dev/null")?)?;
                let _ = sender.send(());
            }
            None => {}
        }
        Ok(())
    }
}
