//! Lines of an untrusted stream: bounded in length and total size, with invalid UTF-8 replaced.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest line to read; a longer one is skipped. A message with a whole file in it fits. Bytes.
pub const LONGEST_LINE_BYTES: usize = 16 * 1024 * 1024;

const READ_BYTES: usize = 64 * 1024;

/// After a long line, a buffer larger than this shrinks again. Bytes.
const SHRINK_ABOVE_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Text(String),
    /// A line that exceeded the limit.
    TooLong {
        bytes: u64,
    },
    /// More bytes came than the budget allows. Reported once; the caller judges the rest.
    OverBudget,
    /// The end of the stream or a read error.
    End,
}

/// Reads lines. Dropping its future loses no bytes.
pub struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// Start of the next line in the buffer.
    start: usize,
    /// The buffer has no line end before this index.
    searched: usize,
    /// Bytes skipped so far of an overlong line.
    skipped: Option<u64>,
    total_bytes: u64,
    budget_bytes: u64,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(source: R, budget_bytes: u64) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            skipped: None,
            total_bytes: 0,
            budget_bytes,
            ended: false,
        }
    }

    /// Sets the total number of bytes to read, including those read so far.
    pub fn set_budget(&mut self, budget_bytes: u64) {
        self.budget_bytes = budget_bytes;
    }

    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Reads the next line. A last line without a terminator counts.
    pub async fn next(&mut self) -> Line {
        loop {
            if let Some(line) = self.buffered_line() {
                return line;
            }
            if self.ended {
                return self.last_line();
            }
            if self.total_bytes > self.budget_bytes {
                self.budget_bytes = u64::MAX;
                return Line::OverBudget;
            }
            self.buffer.reserve(READ_BYTES);
            match (&mut self.source)
                .take(READ_BYTES as u64)
                .read_buf(&mut self.buffer)
                .await
            {
                Ok(0) | Err(_) => self.ended = true,
                Ok(count) => self.total_bytes += count as u64,
            }
        }
    }

    fn buffered_line(&mut self) -> Option<Line> {
        if let Some(end) = self.buffer[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n')
        {
            let end = self.searched + end;
            let length = end - self.start;
            let line = match self.skipped.take() {
                Some(bytes) => Line::TooLong {
                    bytes: bytes + length as u64,
                },
                None => Line::Text(text(&self.buffer[self.start..end])),
            };
            self.start = end + 1;
            self.searched = self.start;
            return Some(line);
        }
        self.searched = self.buffer.len();
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.len() > LONGEST_LINE_BYTES || self.skipped.is_some() {
            *self.skipped.get_or_insert(0) += self.buffer.len() as u64;
            self.buffer.clear();
            self.searched = 0;
        }
        if self.buffer.len() < SHRINK_ABOVE_BYTES && self.buffer.capacity() > 2 * SHRINK_ABOVE_BYTES {
            self.buffer.shrink_to(SHRINK_ABOVE_BYTES);
        }
        None
    }

    fn last_line(&mut self) -> Line {
        if let Some(bytes) = self.skipped.take() {
            return Line::TooLong { bytes };
        }
        if self.buffer.is_empty() {
            return Line::End;
        }
        let line = text(&self.buffer);
        self.buffer = Vec::new();
        self.start = 0;
        self.searched = 0;
        Line::Text(line)
    }
}

fn text(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8], budget: u64) -> Vec<Line> {
        let mut lines = Lines::new(bytes, budget);
        let mut read = Vec::new();
        loop {
            let line = lines.next().await;
            read.push(line.clone());
            if line == Line::End {
                return read;
            }
        }
    }

    #[tokio::test]
    async fn lines_are_split_and_invalid_bytes_replaced() {
        let text = |text: &str| Line::Text(text.to_owned());
        let lines = read(b"a\r\n\nb\xffc\nlast", 100).await;
        assert_eq!(
            lines,
            [text("a"), text(""), text("b\u{fffd}c"), text("last"), Line::End]
        );
    }

    #[tokio::test]
    async fn long_lines_are_read_and_longer_ones_skipped() {
        let long = LONGEST_LINE_BYTES - 1;
        let mut bytes = vec![b'x'; long];
        bytes.push(b'\n');
        bytes.extend(vec![b'y'; LONGEST_LINE_BYTES + READ_BYTES]);
        bytes.extend(b"\nz\n");
        let lines = read(&bytes, u64::MAX).await;
        assert!(matches!(&lines[0], Line::Text(text) if text.len() == long));
        assert_eq!(
            lines[1..],
            [
                Line::TooLong {
                    bytes: (LONGEST_LINE_BYTES + READ_BYTES) as u64
                },
                Line::Text("z".into()),
                Line::End
            ]
        );
    }

    #[tokio::test]
    async fn the_budget_ends_an_endless_line() {
        let lines = read(&vec![b'x'; 10 * READ_BYTES], READ_BYTES as u64).await;
        assert_eq!(lines[0], Line::OverBudget);
        assert!(matches!(&lines[1], Line::Text(text) if text.len() == 10 * READ_BYTES));
        let lines = read(b"abc\n", 4).await;
        assert_eq!(lines, [Line::Text("abc".into()), Line::End]);
    }
}
