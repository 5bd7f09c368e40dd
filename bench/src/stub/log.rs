//! Log of a stub's events with times, one per line, in the format of comparable benchmarks: `S 17
//! 1700000000.123456`.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

/// The machine's clock, the same in all processes. Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// An assignment arrived.
    Started,
    /// Its report is about to be published.
    Ended,
}

/// One line of the log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    pub mark: Mark,
    /// Number of the task: the first word of its title.
    pub task: u64,
    /// Time of the event. Seconds since 1970.
    pub at: f64,
    /// Time of its submission, if its title has it as the second word. Seconds since 1970.
    pub submitted: Option<f64>,
}

/// An append-only log with one write per line, so that a kill loses no event.
#[derive(Debug)]
pub struct Log(File);

impl Log {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("failed to open the log {}", path.display()))?;
        Ok(Self(file))
    }

    /// Records that the task of this title started or ended at `at`.
    pub fn note(&self, mark: Mark, title: &str, at: f64) -> std::io::Result<()> {
        let letter = match mark {
            Mark::Started => 'S',
            Mark::Ended => 'E',
        };
        let (task, submitted) = title.split_once(' ').unwrap_or((title, ""));
        let line = match mark {
            Mark::Started if !submitted.is_empty() => format!("{letter} {task} {at:.6} {submitted}\n"),
            _ => format!("{letter} {task} {at:.6}\n"),
        };
        (&self.0).write_all(line.as_bytes())
    }
}

/// Reads a log; skips a last line that is still being written. A missing file has no events.
pub fn read(path: &Path) -> Vec<Event> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Event> {
    let mut words = line.split(' ');
    let mark = match words.next()? {
        "S" => Mark::Started,
        "E" => Mark::Ended,
        _ => return None,
    };
    Some(Event {
        mark,
        task: words.next()?.parse().ok()?,
        at: words.next()?.parse().ok()?,
        submitted: words.next().and_then(|word| word.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn events_survive_a_write_and_a_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert!(read(&path).is_empty());
        let log = Log::open(&path).unwrap();
        log.note(Mark::Started, "17 4.5", 5.25).unwrap();
        log.note(Mark::Ended, "17 4.5", 6.0).unwrap();
        (&log.0).write_all(b"S 18 7.0").unwrap();
        let started = Event {
            mark: Mark::Started,
            task: 17,
            at: 5.25,
            submitted: Some(4.5),
        };
        let ended = Event {
            mark: Mark::Ended,
            at: 6.0,
            submitted: None,
            ..started
        };
        assert_eq!(read(&path), [started, ended]);
    }
}
