//! Parser for server-sent events, for the subset that the API sends.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::Response;

/// The server sends something at least every 15 seconds; a longer silence means that it is gone.
const SILENCE: Duration = Duration::from_secs(45);
/// The longest event, in bytes.
const MAX_EVENT: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Pass this as `last_event_id` to continue after the event.
    pub id: Option<String>,
    pub data: String,
}

pub struct EventStream {
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    parser: Parser,
}

impl EventStream {
    /// Reads the events of a response.
    pub fn new(response: Response) -> Self {
        Self {
            body: response.bytes_stream().boxed(),
            parser: Parser::default(),
        }
    }

    /// The next event; `None` at the stream's end. Cancel safe.
    pub async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            if let Some(event) = self.parser.pop() {
                return Ok(Some(event));
            }
            let read = tokio::time::timeout(SILENCE, self.body.try_next()).await;
            match read
                .context("the coordinator went silent")?
                .context("the stream broke off")?
            {
                Some(bytes) => self.parser.push(&bytes)?,
                None => return Ok(None),
            }
        }
    }
}

/// Parses bytes into events; skips comments and event names.
#[derive(Debug, Default)]
struct Parser {
    buffer: Vec<u8>,
    read: usize,
    event: Event,
    has_data: bool,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
        anyhow::ensure!(
            self.buffer.len() + self.event.data.len() <= MAX_EVENT,
            "an event is too long"
        );
        Ok(())
    }

    fn pop(&mut self) -> Option<Event> {
        loop {
            let rest = &self.buffer[self.read..];
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let line = String::from_utf8_lossy(&rest[..end])
                .trim_end_matches('\r')
                .to_owned();
            self.read += end + 1;
            if line.is_empty() {
                if std::mem::take(&mut self.has_data) {
                    return Some(std::mem::take(&mut self.event));
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => {
                    if self.has_data {
                        self.event.data.push('\n');
                    }
                    self.event.data.push_str(value);
                    self.has_data = true;
                }
                "id" => self.event.id = Some(value.to_owned()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn events_parse_whatever_the_chunk_size() {
        let text =
            b": hello\n\nevent: entry\nid: a:1\ndata: one\ndata: two\n\ndata:three\r\n\r\nid: only\n\n";
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for chunk in text.chunks(size) {
                parser.push(chunk).unwrap();
                events.extend(std::iter::from_fn(|| parser.pop()));
            }
            let got: Vec<_> = events
                .iter()
                .map(|e| (e.id.as_deref(), e.data.as_str()))
                .collect();
            assert_eq!(
                got,
                [(Some("a:1"), "one\ntwo"), (None, "three")],
                "chunks of {size}"
            );
        }
    }
}
