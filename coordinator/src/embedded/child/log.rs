//! Bounded log files: a child's output, on disk and as a tail for error messages.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// A log file is moved to `NAME.1`, replacing an older one, when it has grown to this size.
const ROTATE_AT_BYTES: u64 = 4 * 1024 * 1024;
/// Most bytes of output that an error message quotes.
const TAIL_BYTES: usize = 4 * 1024;

/// The last few KB of a child's output.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock();
        tail.extend(bytes);
        let excess = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..excess);
    }

    /// The tail as text, in whole lines if there are several.
    pub(super) fn text(&self) -> String {
        let tail = self.0.lock();
        let bytes: Vec<u8> = tail.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        match text.split_once('\n') {
            Some((_cut, rest)) if bytes.len() == TAIL_BYTES => rest.trim_end().to_owned(),
            _ => text.trim_end().to_owned(),
        }
    }
}

/// Copies `from` into the log until its end. A log that can't be written must not block the child; its output
/// is then only in the tail.
pub(super) fn pump(mut from: impl Read, mut log: RotatingFile, tail: Tail) {
    let mut buffer = [0u8; 8 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                tail.push(&buffer[..length]);
                let _ = log.write(&buffer[..length]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// A file that is appended to, readable by its owner alone, and never much larger than [`ROTATE_AT_BYTES`].
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    rotate_at_bytes: u64,
}

impl RotatingFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, ROTATE_AT_BYTES)
    }

    fn with_limit(path: &Path, rotate_at_bytes: u64) -> io::Result<Self> {
        let file = append(path)?;
        let size_bytes = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            size_bytes,
            rotate_at_bytes,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.size_bytes >= self.rotate_at_bytes {
            let mut older = self.path.clone().into_os_string();
            older.push(".1");
            fs::rename(&self.path, older)?;
            self.file = append(&self.path)?;
            self.size_bytes = 0;
        }
        self.file.write_all(bytes)?;
        self.size_bytes += bytes.len() as u64;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn log_is_bounded_and_keeps_one_older_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        let mut log = RotatingFile::with_limit(&path, 10).unwrap();
        for line in ["first line\n", "second line\n", "third line\n"] {
            log.write(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "third line\n");
        assert_eq!(
            fs::read_to_string(folder.path().join("server.log.1")).unwrap(),
            "second line\n"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn tail_keeps_the_end_in_whole_lines() {
        let tail = Tail::default();
        tail.push("x".repeat(TAIL_BYTES).as_bytes());
        tail.push(b"\nlast words\n");
        assert_eq!(tail.text(), "last words");

        let short = Tail::default();
        short.push(b"one\ntwo\n");
        assert_eq!(short.text(), "one\ntwo");
    }
}
