//! The worker's data folder: locked by one process, with an identity and records of running dispatches, so
//! that a new instance can clean up after the previous one (DESIGN 2, workers). Git ignores all of it, if it
//! is inside a repository.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use nix::fcntl::{Flock, FlockArg};
use ralph_shared::at_length::at_length;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::Assignment;
use serde::Serialize;
use uuid::Uuid;

/// A file whose age is that of the instance's last sign of life.
const ALIVE: &str = "alive";

/// A file whose age is that of the last answered heartbeat.
const READY: &str = "ready";

/// A locked data folder.
#[derive(Debug)]
pub struct Home {
    dir: PathBuf,
    data_id: String,
    /// Time of the previous instance's last sign of life.
    last_alive: Option<SystemTime>,
    _lock: Flock<File>,
}

impl Home {
    /// Opens or creates `dir`, private to the owner, and locks it.
    pub fn open(dir: &Path) -> anyhow::Result<Self> {
        make_private(dir)?;
        let dir = fs::canonicalize(dir).with_context(|| format!("failed to find {}", dir.display()))?;
        make_private(&dir.join("live"))?;
        let path = dir.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("failed to open {}", path.display()))?;
        let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
            bail!(
                "another worker uses the data folder {}; stop it, or give this one its own --data",
                dir.display()
            );
        };
        write_gitignore(&dir)?;
        let data_id = identity(&dir)?;
        Ok(Self {
            last_alive: modified(&dir.join(ALIVE)),
            dir,
            data_id,
            _lock: lock,
        })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn data_id(&self) -> &str {
        &self.data_id
    }

    /// Folder of waiting reports.
    pub fn spool(&self) -> PathBuf {
        self.dir.join("spool")
    }

    /// Folder of reports about late pushes.
    pub fn late(&self) -> PathBuf {
        self.spool().join("late")
    }

    /// Folder of transcripts that no coordinator stores yet.
    pub fn transcripts(&self) -> PathBuf {
        self.dir.join("transcripts")
    }

    /// File for a session's protocol log.
    pub fn protocol_log(&self, dispatch: DispatchId) -> PathBuf {
        self.protocol_logs().join(format!("{}.log", dispatch.0))
    }

    pub fn protocol_logs(&self) -> PathBuf {
        self.dir.join("protocol")
    }

    pub fn workspaces(&self) -> PathBuf {
        self.dir.join("git")
    }

    fn live(&self, dispatch: DispatchId) -> PathBuf {
        self.dir.join("live").join(dispatch.0.to_string())
    }

    /// Records that a dispatch runs.
    ///
    /// # Errors
    /// Fails if the record can't be written; the dispatch must not run then.
    pub fn note_live(&self, assignment: &Assignment) -> anyhow::Result<()> {
        write_json(&self.live(assignment.dispatch), assignment)
    }

    /// Records a sign of life. The next instance needs it to tell how long interrupted dispatches had run.
    pub fn note_alive(&self) {
        self.touch(ALIVE);
    }

    /// Records that a coordinator answers, for health checks.
    pub fn note_ready(&self) {
        self.touch(READY);
    }

    fn touch(&self, name: &str) {
        let path = self.dir.join(name);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        if let Err(error) = file.and_then(|file| file.set_modified(SystemTime::now())) {
            tracing::debug!(%error, name, "can't record this worker's state");
        }
    }

    /// How long a dispatch of the previous instance had run at that instance's last sign of life. `None` if
    /// unknown.
    pub fn ran_for(&self, dispatch: DispatchId) -> Option<Duration> {
        let began = modified(&self.live(dispatch))?;
        self.last_alive?.duration_since(began).ok()
    }

    /// Deletes the record of a dispatch whose report is spooled.
    pub fn forget_live(&self, dispatch: DispatchId) {
        let _ = fs::remove_file(self.live(dispatch));
    }

    /// Records all dispatches that run now that a drain was requested.
    pub fn note_drain(&self) {
        let running = noted_live(&self.dir).join("\n");
        if let Err(error) = at_length(|| write_atomically(&self.drain_note(), running.as_bytes())) {
            tracing::warn!(
                error = format!("{error:#}"),
                "can't record the sessions that the drain ends"
            );
        }
    }

    /// Dispatches that ran when an earlier instance was told to drain. The record stays, so that an instance
    /// that dies before it reports them loses nothing.
    pub fn drained(&self) -> BTreeSet<DispatchId> {
        let noted = fs::read_to_string(self.drain_note()).unwrap_or_default();
        let ids = noted.lines().filter_map(|line| Uuid::parse_str(line).ok());
        ids.map(DispatchId).collect()
    }

    fn drain_note(&self) -> PathBuf {
        self.dir.join("drained")
    }

    /// The assignments that ran when the previous instance ended. Unreadable records are deleted.
    pub fn interrupted_assignments(&self) -> Vec<Assignment> {
        let entries = fs::read_dir(self.dir.join("live"))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter_map(|entry| {
                let assignment = fs::read(entry.path())
                    .ok()
                    .and_then(|b| serde_json::from_slice(&b).ok());
                if assignment.is_none() {
                    let _ = fs::remove_file(entry.path());
                }
                assignment
            })
            .collect()
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// Ids of dispatches recorded as running in a data folder.
pub fn noted_live(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("live")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| Uuid::parse_str(name).is_ok())
        .collect()
}

/// Makes git ignore the folder if it is inside a repository, unless somebody wrote rules there.
fn write_gitignore(dir: &Path) -> anyhow::Result<()> {
    let path = dir.join(".gitignore");
    if path.exists() {
        return Ok(());
    }
    write_atomically(&path, b"*\n")
}

fn identity(dir: &Path) -> anyhow::Result<String> {
    let path = dir.join("identity");
    match fs::read_to_string(&path) {
        Ok(text) if Uuid::parse_str(text.trim()).is_ok() => Ok(text.trim().to_owned()),
        _ => {
            let id = Uuid::now_v7().to_string();
            write_atomically(&path, id.as_bytes())?;
            Ok(id)
        }
    }
}

fn make_private(dir: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("failed to make the folder {}", dir.display()))
}

/// Writes a document like [`write_atomically`]. Other tasks go on meanwhile, since a report may hold
/// megabytes and a disk may be slow.
pub fn write_json(path: &Path, document: &impl Serialize) -> anyhow::Result<()> {
    at_length(|| write_atomically(path, &serde_json::to_vec(document)?))
}

/// Writes a file completely or not at all, even if the machine crashes.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    replace(path, bytes).with_context(|| format!("failed to write {}", path.display()))
}

/// Like [`write_atomically`], with the system's own error.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_folder_has_one_worker_and_one_identity() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("w")).unwrap();
        let error = Home::open(&dir.path().join("w")).unwrap_err().to_string();
        assert!(error.contains("another worker uses the data folder"), "{error}");
        let id = home.data_id().to_owned();
        drop(home);
        assert_eq!(Home::open(&dir.path().join("w")).unwrap().data_id(), id);
    }

    #[test]
    fn git_ignores_the_folder_unless_it_has_its_own_rules() {
        let dir = tempfile::tempdir().unwrap();
        let rules = || fs::read_to_string(dir.path().join(".gitignore")).unwrap();
        drop(Home::open(dir.path()).unwrap());
        assert_eq!(rules(), "*\n");
        fs::write(dir.path().join(".gitignore"), "/live\n").unwrap();
        drop(Home::open(dir.path()).unwrap());
        assert_eq!(rules(), "/live\n");
    }

    #[test]
    fn dispatches_that_ran_during_a_drain_stay_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        assert!(home.drained().is_empty());
        let (first, later) = (DispatchId::new(), DispatchId::new());
        fs::write(home.live(first), "").unwrap();
        home.note_drain();
        fs::write(home.live(later), "").unwrap();
        drop(home);
        let home = Home::open(dir.path()).unwrap();
        assert_eq!(home.drained(), BTreeSet::from([first]));
        home.note_drain();
        assert_eq!(home.drained(), BTreeSet::from([first, later]));
    }

    #[test]
    fn an_interrupted_dispatch_ran_until_its_workers_last_sign() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let (long, late) = (DispatchId::new(), DispatchId::new());
        home.note_alive();
        let began = |dispatch, at| {
            fs::write(home.live(dispatch), "").unwrap();
            File::open(home.live(dispatch)).unwrap().set_modified(at).unwrap();
        };
        let alive = modified(&dir.path().join(ALIVE)).unwrap();
        began(long, alive - Duration::from_secs(90));
        began(late, alive + Duration::from_secs(1));
        assert_eq!(home.ran_for(long), None, "this instance is still running");
        drop(home);
        let home = Home::open(dir.path()).unwrap();
        home.note_alive();
        assert_eq!(home.ran_for(long), Some(Duration::from_secs(90)));
        for unknown in [late, DispatchId::new()] {
            assert_eq!(home.ran_for(unknown), None);
        }
    }

    #[test]
    fn a_broken_record_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        fs::write(dir.path().join("live/x"), "{").unwrap();
        assert!(home.interrupted_assignments().is_empty());
        assert!(!dir.path().join("live/x").exists());
    }
}
