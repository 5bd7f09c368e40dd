//! A log of one session's protocol lines, both ways, if the configuration asks for it. It helps to debug an
//! agent and this client. Lines are redacted, but a secret split over several messages is not recognized, so
//! only the owner can read the file.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use ralph_shared::at_length::by_length;

use crate::session::redaction::Redactor;

/// Most bytes stored for one session.
pub const MOST_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    FromAgent,
    ToAgent,
}

/// A session's log. Cheap to clone.
#[derive(Clone)]
pub struct ProtocolLog(Arc<Mutex<Log>>);

struct Log {
    file: File,
    left_bytes: u64,
    redactor: Redactor,
}

impl ProtocolLog {
    /// Creates the file and its folder, or appends to an existing file.
    pub fn open(path: &Path, redactor: Redactor) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        let left_bytes = MOST_BYTES.saturating_sub(file.metadata()?.len());
        Ok(Self(Arc::new(Mutex::new(Log {
            file,
            left_bytes,
            redactor,
        }))))
    }

    /// Adds a line. Lines above the limit or that can't be written are dropped; the session goes on.
    pub fn line(&self, way: Direction, line: &str) {
        let mut log = self.0.lock();
        if log.left_bytes == 0 {
            return;
        }
        by_length(line.len(), || log.add(way, line));
    }
}

impl Log {
    fn add(&mut self, way: Direction, line: &str) {
        let sign = match way {
            Direction::FromAgent => '<',
            Direction::ToAgent => '>',
        };
        let at = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ");
        let mut text = format!("{at} {sign} {}\n", self.redactor.text(line.trim_end()));
        if text.len() as u64 > self.left_bytes {
            text = format!("{at} (the rest is left out: {MOST_BYTES} bytes are kept of a session)\n");
            self.left_bytes = 0;
        } else {
            self.left_bytes -= text.len() as u64;
        }
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            tracing::warn!(%error, "a session's protocol log can't be written any more");
            self.left_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn lines_are_redacted_bounded_and_private_to_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("protocol/one.log");
        let log = ProtocolLog::open(&path, Redactor::new(["pass\"word-1".to_owned()])).unwrap();
        log.line(Direction::ToAgent, "{\"id\":1,\"key\":\"pass\\\"word-1\"}\n");
        log.line(Direction::FromAgent, &"x".repeat(MOST_BYTES as usize));
        log.line(Direction::FromAgent, "more");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text
            .lines()
            .map(|line| &line["2026-01-01T00:00:00.000Z ".len()..])
            .collect();
        assert_eq!(lines[0], "> {\"id\":1,\"key\":\"[redacted]\"}");
        assert!(
            lines[1].starts_with("(the rest is left out") && lines.len() == 2,
            "{text}"
        );
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
}
