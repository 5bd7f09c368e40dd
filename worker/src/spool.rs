//! Reports on this machine's disk, from the end of their dispatch until the coordinator has settled them (DESIGN 2).

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use ralph_shared::at_length::at_length;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Report, Settlement};

use crate::home::write_json;

/// Limit of the growing pause between publications, as a multiple of the first pause.
const LONGEST: u32 = 16;

#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    waiting: Mutex<BTreeMap<DispatchId, Publications>>,
}

/// How often something was published, and the last time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Publications {
    times: u32,
    last: Option<Instant>,
}

impl Publications {
    pub fn note(&mut self, at: Instant) {
        self.times = self.times.saturating_add(1).min(30);
        self.last = Some(at);
    }

    /// Whether to publish now: at first, and again after `again`, doubled each time up to [`LONGEST`] times
    /// that. An unreadable report must not fill the broker's store.
    pub fn due(self, now: Instant, again: Duration) -> bool {
        let pause = again * (1 << self.times.saturating_sub(1)).min(LONGEST);
        self.last.is_none_or(|at| now.duration_since(at) >= pause)
    }
}

impl Spool {
    /// Opens the spool with an earlier instance's reports. An unreadable report is moved to `refused`: nobody
    /// would ever settle it, and it must not hold its dispatch.
    pub fn open(dir: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(dir.join("refused"))
            .with_context(|| format!("failed to make the spool {}", dir.display()))?;
        let entries = fs::read_dir(&dir).with_context(|| format!("failed to read {}", dir.display()))?;
        let waiting = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok())
            .map(|dispatch| (dispatch, Publications::default()))
            .collect();
        let spool = Self {
            dir,
            waiting: Mutex::new(waiting),
        };
        for dispatch in spool.dispatches() {
            // A disk that fails now may recover later, but half a report never becomes complete.
            let Ok(bytes) = fs::read(spool.path(dispatch)) else {
                continue;
            };
            if let Err(error) = serde_json::from_slice::<serde_json::Value>(&bytes) {
                tracing::error!(%dispatch, %error, "a spooled report is incomplete; it is moved to `refused`");
                spool.settle(dispatch, Settlement::UnknownDispatch);
            }
        }
        Ok(spool)
    }

    fn path(&self, dispatch: DispatchId) -> PathBuf {
        self.dir.join(format!("{}.json", dispatch.0))
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<DispatchId, Publications>> {
        self.waiting.lock()
    }

    /// Adds a report. From here on it survives this process.
    ///
    /// # Errors
    /// Fails if the disk rejects it; the caller must keep it then.
    pub fn put(&self, report: &Report) -> anyhow::Result<()> {
        write_json(&self.path(report.dispatch), report)?;
        self.waiting().insert(report.dispatch, Publications::default());
        Ok(())
    }

    pub fn dispatches(&self) -> Vec<DispatchId> {
        self.waiting().keys().copied().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// Reports to publish now: new ones, and unsettled ones after the pause `again`, which grows each time.
    pub fn due(&self, now: Instant, again: Duration) -> Vec<DispatchId> {
        let waiting = self.waiting();
        let due = waiting.iter().filter(|(_, published)| published.due(now, again));
        due.map(|(dispatch, _)| *dispatch).collect()
    }

    /// A waiting report. `None` if it was settled meanwhile or the disk can't read it.
    pub fn read(&self, dispatch: DispatchId) -> Option<Bytes> {
        match at_length(|| fs::read(self.path(dispatch))) {
            Ok(bytes) => Some(bytes.into()),
            Err(error) if error.kind() == ErrorKind::NotFound && !self.waiting().contains_key(&dispatch) => {
                None
            }
            Err(error) => {
                tracing::error!(%dispatch, %error, "a spooled report can't be read");
                None
            }
        }
    }

    /// Records that the broker has a report.
    pub fn published(&self, dispatch: DispatchId, at: Instant) {
        if let Some(published) = self.waiting().get_mut(&dispatch) {
            published.note(at);
        }
    }

    /// Removes a settled report. One that nobody knows is moved to `refused` for a person to read.
    pub fn settle(&self, dispatch: DispatchId, settlement: Settlement) {
        let path = self.path(dispatch);
        let gone = at_length(|| match settlement {
            Settlement::Applied | Settlement::Superseded => fs::remove_file(&path),
            Settlement::UnknownDispatch | Settlement::Unknown => fs::rename(
                &path,
                self.dir.join("refused").join(format!("{}.json", dispatch.0)),
            ),
        });
        // A settlement may arrive twice: at once, and with a heartbeat under way.
        if let Err(error) = gone
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%dispatch, %error, "a settled report could not be taken from the spool");
        }
        self.waiting().remove(&dispatch);
    }
}

#[cfg(test)]
mod tests {
    use ralph_shared::ids::Incarnation;
    use ralph_shared::wire::{Finished, IntegrationEnd, WRITES};

    use super::*;

    const AGAIN: Duration = Duration::from_secs(10);

    fn report() -> Report {
        Report {
            v: WRITES,
            dispatch: DispatchId::new(),
            worker: "w".into(),
            incarnation: Incarnation::new(),
            duration_ms: 1,
            finished: Finished::Integration(IntegrationEnd::Void { reason: "x".into() }.into()),
        }
    }

    #[test]
    fn an_unreadable_report_does_not_hold_its_dispatch() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("spool");
        let good = report();
        Spool::open(dir.clone()).unwrap().put(&good).unwrap();
        let bad = DispatchId::new();
        fs::write(dir.join(format!("{}.json", bad.0)), "{ half").unwrap();
        assert_eq!(Spool::open(dir.clone()).unwrap().dispatches(), [good.dispatch]);
        assert!(dir.join(format!("refused/{}.json", bad.0)).exists());
    }

    #[test]
    fn a_report_survives_restarts_until_it_is_settled() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(dir.path().join("s")).unwrap();
        let (first, second) = (report(), report());
        spool.put(&first).unwrap();
        spool.put(&second).unwrap();
        let spool = Spool::open(dir.path().join("s")).unwrap();
        let now = Instant::now();
        let due = spool.due(now, AGAIN);
        assert_eq!(due.len(), 2);
        assert_eq!(
            serde_json::from_slice::<Report>(&spool.read(due[0]).unwrap()).unwrap(),
            first
        );
        spool.published(first.dispatch, now);
        assert_eq!(spool.due(now, AGAIN).len(), 1);
        assert_eq!(spool.due(now + AGAIN, AGAIN).len(), 2);
        spool.published(first.dispatch, now);
        assert_eq!(spool.due(now + AGAIN, AGAIN).len(), 1);
        assert_eq!(spool.due(now + 2 * AGAIN, AGAIN).len(), 2);
        (0..40).for_each(|_| spool.published(first.dispatch, now));
        assert_eq!(spool.due(now + LONGEST * AGAIN, AGAIN).len(), 2);
        spool.settle(first.dispatch, Settlement::Applied);
        spool.settle(second.dispatch, Settlement::UnknownDispatch);
        assert!(spool.is_empty() && spool.read(first.dispatch).is_none());
        let refused = dir
            .path()
            .join("s/refused")
            .join(format!("{}.json", second.dispatch.0));
        assert!(refused.exists());
        assert!(Spool::open(dir.path().join("s")).unwrap().is_empty());
    }
}
