//! Transcripts on this machine's disk, from their first entry until a coordinator stores them. The broker
//! loses them when its store is wiped or full, and accepts none while it is down. Transcripts not stored by
//! then are sent again.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;
use ralph_shared::at_length::{at_length, by_length};
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{RetainedTranscript, TranscriptBatch};

use crate::spool::Publications;

/// Most transcripts named in one heartbeat.
const NAMED: usize = 100;
/// Most bytes of all transcripts. Above that the oldest are deleted.
const MOST_BYTES: u64 = 512 * 1024 * 1024;

/// The transcripts of one data folder.
#[derive(Debug)]
pub struct Transcripts {
    dir: PathBuf,
    kept: Mutex<BTreeMap<DispatchId, RetainedFile>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct RetainedFile {
    entries: u64,
    bytes: u64,
    ended: bool,
    /// How often it was named in heartbeats, so that all get their turn.
    named: u64,
    sent: Publications,
}

impl Transcripts {
    /// Opens the folder with an earlier instance's transcripts.
    pub fn open(dir: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&dir).with_context(|| format!("failed to make {}", dir.display()))?;
        let entries = fs::read_dir(&dir).with_context(|| format!("failed to read {}", dir.display()))?;
        let ids: Vec<DispatchId> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".jsonl")?.parse().ok())
            .collect();
        let transcripts = Self {
            dir,
            kept: Mutex::default(),
        };
        for dispatch in ids {
            let batches = transcripts.batches(dispatch);
            let kept = RetainedFile {
                entries: batches.iter().map(|batch| batch.entries.len() as u64).sum(),
                bytes: fs::metadata(transcripts.path(dispatch)).map_or(0, |file| file.len()),
                ended: true,
                ..RetainedFile::default()
            };
            transcripts.kept.lock().insert(dispatch, kept);
        }
        Ok(transcripts)
    }

    fn path(&self, dispatch: DispatchId) -> PathBuf {
        self.dir.join(format!("{}.jsonl", dispatch.0))
    }

    pub fn append(&self, batch: &TranscriptBatch) -> anyhow::Result<()> {
        let path = self.path(batch.dispatch);
        let mut line = serde_json::to_vec(batch)?;
        line.push(b'\n');
        let written = by_length(line.len(), || {
            let file = OpenOptions::new().create(true).append(true).open(&path);
            file.and_then(|mut file| file.write_all(&line))
        });
        written.with_context(|| format!("failed to write {}", path.display()))?;
        let mut kept = self.kept.lock();
        let one = kept.entry(batch.dispatch).or_default();
        one.entries += batch.entries.len() as u64;
        one.bytes += line.len() as u64;
        Ok(())
    }

    /// Marks a session as over. `missed` means that the broker lacks part of its transcript.
    pub fn end(&self, dispatch: DispatchId, missed: bool) {
        if let Some(one) = self.kept.lock().get_mut(&dispatch) {
            one.ended = true;
            if !missed {
                one.sent.note(Instant::now());
            }
        }
        self.make_room();
    }

    /// The next transcripts to confirm: those of ended sessions, in turn.
    pub fn next_to_confirm(&self) -> Vec<RetainedTranscript> {
        let mut kept = self.kept.lock();
        let mut ended: Vec<_> = kept.iter_mut().filter(|(_, one)| one.ended).collect();
        ended.sort_by_key(|(_, one)| one.named);
        let named = ended.into_iter().take(NAMED).map(|(dispatch, one)| {
            one.named += 1;
            RetainedTranscript {
                dispatch: *dispatch,
                entries: one.entries,
            }
        });
        named.collect()
    }

    /// Transcripts to send again: ended ones that no coordinator has stored after `again`, a pause that grows
    /// each time.
    pub fn due(&self, now: Instant, again: Duration) -> Vec<DispatchId> {
        let kept = self.kept.lock();
        let due = kept
            .iter()
            .filter(|(_, one)| one.ended && one.sent.due(now, again));
        due.map(|(dispatch, _)| *dispatch).collect()
    }

    /// A transcript's parts as first sent. A part cut by a crash is left out.
    pub fn batches(&self, dispatch: DispatchId) -> Vec<TranscriptBatch> {
        at_length(|| {
            let Ok(file) = fs::File::open(self.path(dispatch)) else {
                return Vec::new();
            };
            let lines = BufReader::new(file).lines().map_while(Result::ok);
            lines
                .filter_map(|line| serde_json::from_str(&line).ok())
                .collect()
        })
    }

    /// Records that the broker has the whole transcript.
    pub fn sent(&self, dispatch: DispatchId) {
        if let Some(one) = self.kept.lock().get_mut(&dispatch) {
            one.sent.note(Instant::now());
        }
    }

    /// Deletes transcripts that a coordinator stores.
    pub fn forget(&self, dispatches: &[DispatchId]) {
        for dispatch in dispatches {
            self.kept.lock().remove(dispatch);
            let _ = at_length(|| fs::remove_file(self.path(*dispatch)));
        }
    }

    /// Deletes the oldest transcripts while all take too much space. Their ids begin with the time.
    fn make_room(&self) {
        loop {
            let oldest = {
                let kept = self.kept.lock();
                let bytes: u64 = kept.values().map(|one| one.bytes).sum();
                let mut ended = kept.iter().filter(|(_, one)| one.ended);
                if bytes <= MOST_BYTES {
                    return;
                }
                ended.next().map(|(dispatch, _)| *dispatch)
            };
            let Some(dispatch) = oldest else { return };
            tracing::warn!(%dispatch, "too many transcripts wait to be stored; the oldest is deleted");
            self.forget(&[dispatch]);
        }
    }
}

#[cfg(test)]
mod tests {
    use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate, WRITES};

    use super::*;

    fn batch(dispatch: DispatchId, from: u64) -> TranscriptBatch {
        let entries = (from..from + 3).map(|seq| TranscriptEntry {
            seq,
            at_ms: 0,
            update: TranscriptUpdate::Note { text: "x".into() },
        });
        TranscriptBatch {
            v: WRITES,
            dispatch,
            origin: None,
            entries: entries.collect(),
        }
    }

    #[test]
    fn a_transcript_is_resent_until_stored_even_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("transcripts");
        let dispatch = DispatchId::new();
        let again = Duration::from_secs(60);
        let first = Transcripts::open(dir.clone()).unwrap();
        first.append(&batch(dispatch, 0)).unwrap();
        first.append(&batch(dispatch, 3)).unwrap();
        assert!(first.next_to_confirm().is_empty() && first.due(Instant::now(), again).is_empty());
        first.end(dispatch, false);
        assert_eq!(
            first.next_to_confirm(),
            [RetainedTranscript { dispatch, entries: 6 }]
        );
        assert!(first.due(Instant::now(), again).is_empty());
        assert_eq!(first.due(Instant::now() + again, again), [dispatch]);
        first.end(dispatch, true);
        // A crash cuts the last line.
        let mut file = OpenOptions::new()
            .append(true)
            .open(first.path(dispatch))
            .unwrap();
        file.write_all(b"{\"v\":1,\"disp").unwrap();
        let second = Transcripts::open(dir.clone()).unwrap();
        assert_eq!(
            second.next_to_confirm(),
            [RetainedTranscript { dispatch, entries: 6 }]
        );
        assert_eq!(second.due(Instant::now(), again), [dispatch]);
        assert_eq!(second.batches(dispatch), [batch(dispatch, 0), batch(dispatch, 3)]);
        second.forget(&[dispatch]);
        assert!(Transcripts::open(dir).unwrap().next_to_confirm().is_empty());
    }
}
