//! The worker's data folder: locked by one process, with an identity of its own, and notes of what runs, so that a new instance
//! can clear up after the one before (DESIGN 2, workers). Git ignores all of it, should it lie in a repository.

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

/// A file that is as old as its instance's last heartbeat.
const ALIVE: &str = "alive";

/// A file that is as old as the last look at which a coordinator answered heartbeats.
const READY: &str = "ready";

/// A locked data folder.
#[derive(Debug)]
pub struct Home {
    dir: PathBuf,
    data_id: String,
    /// When the instance before gave its last sign.
    last_alive: Option<SystemTime>,
    _lock: Flock<File>,
}

impl Home {
    /// Opens or makes `dir`, for the owner alone, and locks it.
    ///
    /// # Errors
    /// When another process has it, or it can't be written.
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
        have_ignored(&dir)?;
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

    /// Its identity, which goes with the folder.
    pub fn data_id(&self) -> &str {
        &self.data_id
    }

    /// Where reports wait.
    pub fn spool(&self) -> PathBuf {
        self.dir.join("spool")
    }

    /// Where late pushes wait to be told.
    pub fn late(&self) -> PathBuf {
        self.spool().join("late")
    }

    /// Where transcripts wait to be kept.
    pub fn transcripts(&self) -> PathBuf {
        self.dir.join("transcripts")
    }

    /// Where the protocol's lines of a session are kept, where they are asked for.
    pub fn protocol_log(&self, dispatch: DispatchId) -> PathBuf {
        self.protocol_logs().join(format!("{}.log", dispatch.0))
    }

    /// Where those of all sessions are.
    pub fn protocol_logs(&self) -> PathBuf {
        self.dir.join("protocol")
    }

    /// Where workspaces lie.
    pub fn workspaces(&self) -> PathBuf {
        self.dir.join("git")
    }

    fn live(&self, dispatch: DispatchId) -> PathBuf {
        self.dir.join("live").join(dispatch.0.to_string())
    }

    /// Notes that a dispatch runs.
    ///
    /// # Errors
    /// When the note can't be written; the dispatch must not run then.
    pub fn note_live(&self, assignment: &Assignment) -> anyhow::Result<()> {
        write_json(&self.live(assignment.dispatch), assignment)
    }

    /// Notes that this instance goes on, so that the next one can tell how long what it leaves had run.
    pub fn note_alive(&self) {
        self.touch(ALIVE);
    }

    /// Notes that a coordinator answers, for whoever looks after this worker's health.
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
            tracing::debug!(%error, name, "can't note how this worker stands");
        }
    }

    /// How long a dispatch of the instance before had run at that instance's last sign; `None` where that isn't known.
    pub fn ran_for(&self, dispatch: DispatchId) -> Option<Duration> {
        let began = modified(&self.live(dispatch))?;
        self.last_alive?.duration_since(began).ok()
    }

    /// Forgets a dispatch whose report lies in the spool.
    pub fn forget_live(&self, dispatch: DispatchId) {
        let _ = fs::remove_file(self.live(dispatch));
    }

    /// Notes of all that runs now that its worker was told to stop.
    pub fn note_drain(&self) {
        let running = noted_live(&self.dir).join("\n");
        if let Err(error) = at_length(|| write_atomically(&self.drain_note(), running.as_bytes())) {
            tracing::warn!(error = format!("{error:#}"), "can't note what the drain ends");
        }
    }

    /// What ran when an instance before was told to stop. It stays noted, so that an instance which dies before it reported them changes nothing.
    pub fn drained(&self) -> BTreeSet<DispatchId> {
        let noted = fs::read_to_string(self.drain_note()).unwrap_or_default();
        let ids = noted.lines().filter_map(|line| Uuid::parse_str(line).ok());
        ids.map(DispatchId).collect()
    }

    fn drain_note(&self) -> PathBuf {
        self.dir.join("drained")
    }

    /// The assignments that ran when the previous instance ended. Unreadable notes are skipped and removed.
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

/// Ids of the dispatches that a data folder's process notes as running.
pub fn noted_live(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("live")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| Uuid::parse_str(name).is_ok())
        .collect()
}

/// Keeps clones and reports out of a repository that the folder lies in, unless somebody wrote rules there.
fn have_ignored(dir: &Path) -> anyhow::Result<()> {
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

/// Writes a document as [`write_atomically`] does. A report may hold megabytes, and a disk be slow: others go on meanwhile.
///
/// # Errors
/// When the disk is full or the folder can't be written.
pub fn write_json(path: &Path, document: &impl Serialize) -> anyhow::Result<()> {
    at_length(|| write_atomically(path, &serde_json::to_vec(document)?))
}

/// Writes a file so that it is there whole or not at all, also after a crash of the machine.
///
/// # Errors
/// When the disk is full or the folder can't be written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    replace(path, bytes).with_context(|| format!("failed to write {}", path.display()))
}

/// The same, with what the system says where it fails.
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
    fn git_ignores_the_folder_unless_somebody_says_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let rules = || fs::read_to_string(dir.path().join(".gitignore")).unwrap();
        drop(Home::open(dir.path()).unwrap());
        assert_eq!(rules(), "*\n");
        fs::write(dir.path().join(".gitignore"), "/live\n").unwrap();
        drop(Home::open(dir.path()).unwrap());
        assert_eq!(rules(), "/live\n");
    }

    #[test]
    fn what_ran_when_its_worker_was_stopped_stays_noted() {
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
    fn what_a_life_left_had_run_until_its_last_sign() {
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
        assert_eq!(home.ran_for(long), None, "this instance goes on");
        drop(home);
        let home = Home::open(dir.path()).unwrap();
        home.note_alive();
        assert_eq!(home.ran_for(long), Some(Duration::from_secs(90)));
        for unknown in [late, DispatchId::new()] {
            assert_eq!(home.ran_for(unknown), None);
        }
    }

    #[test]
    fn broken_note_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        fs::write(dir.path().join("live/x"), "{").unwrap();
        assert!(home.interrupted_assignments().is_empty());
        assert!(!dir.path().join("live/x").exists());
    }
}
