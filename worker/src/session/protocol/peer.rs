//! JSON-RPC with the agent, one JSON object per line.
//!
//! Message types come from the protocol crate, but the connection is our own. Both queues of the crate are
//! unbounded, and an untrusted agent that asks faster than it reads answers would fill the worker's memory.
//! Here, lines are bounded in length and in values before they are parsed. Large answers are limited in
//! number, and an agent with many open requests is not read further.

use std::borrow::Cow;
use std::sync::Arc;

use agent_client_protocol::v1::schema::Error as RpcError;
use ralph_shared::plain::without_sequences;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::session::protocol_log::{Direction, ProtocolLog};

/// How many potentially large answers (files, terminal output) may exist before they are written.
pub const LARGE_ANSWERS: usize = 4;

/// How many requests may be open: unanswered, or answered with the answer not yet written. At this limit
/// nothing more is read from the agent, which counts as idle if it doesn't read its answers. The limit is far
/// above what agents ask at once, and costs a few megabytes.
pub const OPEN_REQUESTS: usize = 4096;

/// How many values a line may hold, including keys. A value takes at most about 300 bytes in types and trees:
/// 60 MB for a moment. The longest line, full of digits, would take 500 MB and more. A text is one value,
/// however long.
const MOST_VALUES: usize = 200_000;

/// A message from the agent.
#[derive(Debug)]
pub enum Incoming<'a> {
    Request {
        /// Id, exactly as the agent wrote it.
        id: Box<RawValue>,
        method: Cow<'a, str>,
        /// Parameters; `null` if missing.
        params: &'a str,
    },
    Notification {
        method: Cow<'a, str>,
        /// Parameters; `null` if missing.
        params: &'a str,
    },
    Response {
        /// Id of the request. `None` if it can't be one of ours.
        id: Option<u64>,
        result: Result<&'a str, RpcError>,
    },
    /// A notification with too many values.
    Heavy,
    /// No valid message.
    Junk,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// How many opening braces of a line are tried as the start of its message.
const MOST_BEGINNINGS: usize = 8;

pub fn parse(line: &str) -> Incoming<'_> {
    // Serde would read an array as the fields in order, so only objects are accepted.
    let object = object_in(line);
    let Some((line, envelope)) =
        object.and_then(|line| Some((line, serde_json::from_str::<Envelope>(line).ok()?)))
    else {
        return Incoming::Junk;
    };
    let heavy = has_more_values(line, MOST_VALUES);
    // A request that is too heavy gets an error about its parameters.
    let params = envelope.params.filter(|_| !heavy).map_or("null", RawValue::get);
    match (envelope.method, envelope.id) {
        (Some(_), None) if heavy => Incoming::Heavy,
        (Some(method), Some(id)) => Incoming::Request {
            id: id.to_owned(),
            method,
            params,
        },
        (Some(method), None) => Incoming::Notification { method, params },
        (None, Some(id)) => {
            // Some peers return a numeric id as a string.
            let id = id.get().trim_matches('"').parse().ok();
            let result = match envelope.error {
                _ if heavy => Err(RpcError::parse_error().data(Value::from("more values than are read"))),
                Some(error) => Err(read_error(error.get())),
                None => Ok(envelope.result.map_or("null", RawValue::get)),
            };
            Incoming::Response { id, result }
        }
        (None, None) => Incoming::Junk,
    }
}

/// Finds a JSON object in a line where everything else is invisible on a terminal. Some agents write a byte
/// order mark, set a title, or draw and erase a progress bar before they begin.
fn object_in(line: &str) -> Option<&str> {
    let end = line.rfind('}')? + 1;
    let mut begins = line.match_indices('{').map(|(at, _)| at).take(MOST_BEGINNINGS);
    let begin = begins.find(|at| shows_nothing(&line[..*at]))?;
    (begin < end && shows_nothing(&line[end..])).then(|| &line[begin..end])
}

/// Whether a terminal would finally show nothing of a text. A carriage return erases the line, a backspace
/// the last character.
pub fn shows_nothing(text: &str) -> bool {
    let mut shown: usize = 0;
    for c in without_sequences(text).chars() {
        match c {
            '\r' => shown = 0,
            '\u{8}' => shown = shown.saturating_sub(1),
            '\u{feff}' => {}
            c if c.is_control() || c.is_whitespace() => {}
            _ => shown += 1,
        }
    }
    shown == 0
}

/// Whether a JSON text holds more than `most` values and keys.
fn has_more_values(json: &str, most: usize) -> bool {
    // Each value takes a byte and a separator.
    if json.len() <= most {
        return false;
    }
    let mut values = 1;
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b',' | b':' | b'[' | b'{' => values += 1,
            _ => continue,
        }
        if values > most {
            return true;
        }
    }
    false
}

/// Skips the rest of a string.
fn skip_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return,
            _ => {}
        }
    }
}

/// Parses an error object. Anything else becomes the data of an internal error.
fn read_error(json: &str) -> RpcError {
    serde_json::from_str(json)
        .unwrap_or_else(|_| RpcError::internal_error().data(Value::from(json.to_owned())))
}

/// A line on its way to the agent.
struct Outgoing {
    line: Vec<u8>,
    /// Returned when the line is written.
    _slot: Option<OwnedSemaphorePermit>,
    /// Closed when the line is written.
    _open: Option<OpenRequest>,
}

/// Sends to the agent without waiting. Cheap to clone; dropping the last clone closes the agent's input.
#[derive(Clone)]
pub struct Outbox {
    lines: mpsc::UnboundedSender<Outgoing>,
    large: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

/// An open request: one of [`OPEN_REQUESTS`] until it is dropped.
pub struct OpenRequest(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit);

/// Permission to send one large answer.
pub struct LargeSlot(OwnedSemaphorePermit);

/// Creates an outbox and the future that writes its lines, optionally to a log too. The future ends when the
/// last clone is dropped or the agent stops reading.
pub fn outbox<W: AsyncWrite + Unpin>(
    mut sink: W,
    log: Option<ProtocolLog>,
) -> (Outbox, impl Future<Output = ()>) {
    let (lines, mut queue) = mpsc::unbounded_channel::<Outgoing>();
    let outbox = Outbox {
        lines,
        large: Arc::new(Semaphore::new(LARGE_ANSWERS)),
        open: Arc::new(Semaphore::new(OPEN_REQUESTS)),
    };
    let write = async move {
        while let Some(outgoing) = queue.recv().await {
            if let Some(log) = &log {
                log.line(Direction::ToAgent, &String::from_utf8_lossy(&outgoing.line));
            }
            if sink.write_all(&outgoing.line).await.is_err() || sink.flush().await.is_err() {
                return;
            }
        }
    };
    (outbox, write)
}

impl Outbox {
    /// Waits until another large answer may be made.
    pub async fn large_slot(&self) -> Option<LargeSlot> {
        self.large.clone().acquire_owned().await.ok().map(LargeSlot)
    }

    /// Opens a request of the agent. `None` at the limit.
    pub fn open(&self) -> Option<OpenRequest> {
        self.open.clone().try_acquire_owned().ok().map(OpenRequest)
    }

    /// Whether another request may be opened.
    pub fn has_room(&self) -> bool {
        self.open.available_permits() > 0
    }

    /// Waits until another request may be opened.
    pub async fn room(&self) {
        let _ = self.open.acquire().await;
    }

    pub fn request(&self, id: u64, method: &str, params: &impl Serialize) {
        self.send(
            &serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
            None,
            None,
        );
    }

    pub fn notify(&self, method: &str, params: &impl Serialize) {
        self.send(
            &serde_json::json!({ "jsonrpc": "2.0", "method": method, "params": params }),
            None,
            None,
        );
    }

    /// Sends an answer. An answer that may be large needs a slot.
    pub fn answer(
        &self,
        id: &RawValue,
        result: Result<serde_json::Value, RpcError>,
        slot: Option<LargeSlot>,
        open: Option<OpenRequest>,
    ) {
        #[derive(Serialize)]
        struct Response<'a> {
            jsonrpc: &'static str,
            id: &'a RawValue,
            #[serde(skip_serializing_if = "Option::is_none")]
            result: Option<serde_json::Value>,
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<RpcError>,
        }
        let (result, error) = match result {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        self.send(
            &Response {
                jsonrpc: "2.0",
                id,
                result,
                error,
            },
            slot,
            open,
        );
    }

    fn send(&self, message: &impl Serialize, slot: Option<LargeSlot>, open: Option<OpenRequest>) {
        let Ok(mut line) = serde_json::to_vec(message) else {
            return;
        };
        line.push(b'\n');
        // A closed queue means that the agent stopped reading. The conversation notices that itself.
        let _ = self.lines.send(Outgoing {
            line,
            _slot: slot.map(|slot| slot.0),
            _open: open,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> String {
        match parse(line) {
            Incoming::Request { id, method, params } => format!("request {} {method} {params}", id.get()),
            Incoming::Notification { method, params } => format!("notification {method} {params}"),
            Incoming::Response { id, result } => match result {
                Ok(result) => format!("response {id:?} {result}"),
                Err(error) => format!("error {id:?} {} {}", i32::from(error.code), error.message),
            },
            Incoming::Heavy => "heavy".to_owned(),
            Incoming::Junk => "junk".to_owned(),
        }
    }

    #[test]
    fn lines_are_parsed_as_requests_notifications_or_responses() {
        let check = |line: &str, expected: &str| assert_eq!(kind(line), expected, "{line}");
        check(
            r#"{"jsonrpc":"2.0","id":"a\"b","method":"x/y","params":{"a":1}}"#,
            r#"request "a\"b" x/y {"a":1}"#,
        );
        check(r#"{"method":"x","id":1}"#, "request 1 x null");
        check(
            r#"{"jsonrpc":"2.0","method":"x","params":[]}"#,
            "notification x []",
        );
        check(r#"{"id":7,"result":null}"#, "response Some(7) null");
        check(r#"{"id":"7","result":{"a":2}}"#, r#"response Some(7) {"a":2}"#);
        check(r#"{"id":"z","result":1}"#, "response None 1");
        check(
            r#"{"id":1,"error":{"code":-32000,"message":"log in"}}"#,
            "error Some(1) -32000 log in",
        );
        check(r#"{"id":1,"error":"no"}"#, "error Some(1) -32603 Internal error");
        for junk in [
            "",
            "hello",
            "[1]",
            "{}",
            "null",
            "{\"id\":null}",
            "[{\"id\":1,\"result\":1}]",
            "{\"method\":5}",
        ] {
            check(junk, "junk");
        }
    }

    #[test]
    fn a_message_may_be_surrounded_by_invisible_text() {
        let message = r#"{"method":"x","params":{"a":"{\u001b"}}"#;
        let check = |before: &str, after: &str, expected: &str| {
            assert_eq!(
                kind(&format!("{before}{message}{after}")),
                expected,
                "{before:?} {after:?}"
            );
        };
        let read = r#"notification x {"a":"{\u001b"}"#;
        for before in [
            "\u{feff}",
            "\u{1b}[?25l\u{1b}[2K",
            "\u{1b}]0;a {title}\u{7}",
            "\u{9b}0m",
            "loading… 10%\rloading… 20%\r",
            "|\u{8}/\u{8}",
            "\r\u{0} ",
        ] {
            check(before, "", read);
            check(before, "\u{1b}[0m\r", read);
        }
        // Visible text makes it a log line, which may quote messages.
        check("sent: ", "", "junk");
        check("{a} ", "", "junk");
        check("", " was sent", "junk");
        check("10%\r20% ", "", "junk");
    }

    #[test]
    fn values_are_counted_without_a_tree() {
        let check = |json: &str, values: usize| {
            let counted = (1..).find(|most| !has_more_values(&format!("{json}{:99}", ""), *most));
            assert_eq!(counted, Some(values), "{json}");
        };
        check("7", 1);
        check("[1,2]", 3);
        check(r#"{"a":[],"b":"x,y:z[{"}"#, 6);
        check(r#""a\",b,c""#, 1);
        check(r#"["a\\",1,"#, 4);
    }

    #[test]
    fn a_message_with_too_many_values_is_not_parsed() {
        let heavy = format!("[0{}]", ",0".repeat(MOST_VALUES));
        let check = |line: &str, expected: &str| assert_eq!(kind(&line.replace("MANY", &heavy)), expected);
        check(r#"{"method":"x","params":{"a":MANY}}"#, "heavy");
        check(r#"{"method":"x","id":1,"params":{"a":MANY}}"#, "request 1 x null");
        check(r#"{"id":1,"result":MANY}"#, "error Some(1) -32700 Parse error");
        check(
            r#"{"id":1,"error":{"code":1,"message":"m","data":MANY}}"#,
            "error Some(1) -32700 Parse error",
        );
        let text = format!("\"{}\"", ",".repeat(2 * MOST_VALUES));
        let line = r#"{"method":"x","params":TEXT}"#.replace("TEXT", &text);
        assert_eq!(kind(&line), format!("notification x {text}"));
    }

    #[tokio::test]
    async fn large_answers_wait_for_the_agent_to_read() {
        let (near, far) = tokio::io::duplex(64);
        let (outbox, write) = outbox(near, None);
        let writer = tokio::spawn(write);
        let id = RawValue::from_string("1".to_owned()).unwrap();
        for _ in 0..LARGE_ANSWERS {
            let slot = outbox.large_slot().await;
            outbox.answer(&id, Ok("x".repeat(1000).into()), slot, None);
        }
        let next = outbox.large.clone().acquire_owned();
        tokio::pin!(next);
        assert!(futures::poll!(&mut next).is_pending());
        let mut reader = far;
        tokio::io::AsyncReadExt::read_exact(&mut reader, &mut vec![0; 1200])
            .await
            .unwrap();
        drop(next.await.unwrap());
        drop(reader);
        drop(outbox);
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn requests_are_open_until_their_answers_are_written() {
        let (near, mut far) = tokio::io::duplex(64);
        let (outbox, write) = outbox(near, None);
        let writer = tokio::spawn(write);
        let id = RawValue::from_string("1".to_owned()).unwrap();
        for _ in 0..OPEN_REQUESTS {
            let open = outbox.open();
            assert!(open.is_some());
            outbox.answer(&id, Ok("x".repeat(100).into()), None, open);
        }
        assert!(!outbox.has_room() && outbox.open().is_none());
        {
            let room = outbox.room();
            tokio::pin!(room);
            assert!(futures::poll!(&mut room).is_pending());
            tokio::io::AsyncReadExt::read_exact(&mut far, &mut vec![0; 300])
                .await
                .unwrap();
            room.await;
        }
        assert!(outbox.has_room());
        drop((far, outbox));
        writer.await.unwrap();
    }
}
