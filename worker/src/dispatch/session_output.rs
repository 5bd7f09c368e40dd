//! A session's output and usage, on disk from its end until its report is spooled. Its work is pushed in
//! between, which takes long while a server is unreachable. A worker that dies meanwhile loses nothing that
//! was paid for.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use anyhow::Context as _;
use ralph_shared::at_length::at_length;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Finished, Report};
use uuid::Uuid;

use crate::home::write_json;

/// The outputs in one data folder: reports that lack only their snapshot.
#[derive(Debug)]
pub struct SessionOutputs {
    dir: PathBuf,
}

impl SessionOutputs {
    /// Opens a folder, private to the owner, with an earlier instance's outputs.
    pub fn open(dir: PathBuf) -> anyhow::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .with_context(|| format!("failed to make the folder {}", dir.display()))?;
        Ok(Self { dir })
    }

    fn path(&self, dispatch: DispatchId) -> PathBuf {
        self.dir.join(dispatch.0.to_string())
    }

    /// Writes a report that is already redacted.
    pub fn note(&self, report: &Report) -> anyhow::Result<()> {
        write_json(&self.path(report.dispatch), report)
    }

    /// The output of a session that ended. Unreadable output, for example of another release, is ignored.
    pub fn of(&self, dispatch: DispatchId) -> Option<Report> {
        let read = at_length(|| {
            let bytes = fs::read(self.path(dispatch)).ok()?;
            Some(serde_json::from_slice(&bytes))
        })?;
        let report: Report = read
            .inspect_err(|error| tracing::warn!(%dispatch, %error, "a session's output can't be read"))
            .ok()?;
        let is_its = report.dispatch == dispatch && matches!(report.finished, Finished::Session(_));
        is_its.then_some(report)
    }

    /// Deletes the output of a session whose report is spooled.
    pub fn forget(&self, dispatch: DispatchId) {
        let _ = fs::remove_file(self.path(dispatch));
    }

    /// Deletes all outputs but these.
    pub fn keep(&self, dispatches: &[DispatchId]) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let dispatch = name.to_str().and_then(|name| Uuid::parse_str(name).ok());
            if !dispatch.is_some_and(|dispatch| dispatches.contains(&DispatchId(dispatch))) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use ralph_shared::ids::Incarnation;
    use ralph_shared::wire::{Ended, SessionReport, Text, WRITES};

    use super::*;

    fn report() -> Report {
        let ended = Ended::Turn {
            stop_reason: "end_turn".to_owned(),
        };
        Report {
            v: WRITES,
            dispatch: DispatchId::new(),
            worker: "w".to_owned(),
            incarnation: Incarnation::new(),
            duration_ms: 7,
            finished: Finished::Session(Box::new(SessionReport {
                text: Text::Inline("done".to_owned()),
                ..SessionReport::new(ended)
            })),
        }
    }

    #[test]
    fn outputs_survive_a_restart_until_they_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("outputs");
        let (first, second) = (report(), report());
        let outputs = SessionOutputs::open(dir.clone()).unwrap();
        outputs.note(&first).unwrap();
        outputs.note(&second).unwrap();
        for path in [outputs.path(first.dispatch), dir.clone()] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
        let outputs = SessionOutputs::open(dir.clone()).unwrap();
        assert_eq!(outputs.of(first.dispatch), Some(first.clone()));
        fs::write(dir.join(".tmp-half"), "{").unwrap();
        outputs.keep(&[first.dispatch]);
        assert_eq!(outputs.of(second.dispatch), None);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        outputs.forget(first.dispatch);
        assert_eq!(outputs.of(first.dispatch), None);
    }

    #[test]
    fn an_unreadable_output_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = SessionOutputs::open(folder.path().to_owned()).unwrap();
        let (other, dispatch) = (report(), DispatchId::new());
        let of_another = serde_json::to_string(&other).unwrap();
        for text in ["", "{ half", r#"{"v":99,"later":1}"#, &of_another] {
            fs::write(outputs.path(dispatch), text).unwrap();
            assert_eq!(outputs.of(dispatch), None, "{text}");
        }
    }
}
