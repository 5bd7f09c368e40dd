//! Locks on folders of this machine: one session at a time works in a folder, whichever worker runs it.
//!
//! Each folder has a lock file, outside of the folder, since agents may write there. While a session runs,
//! its worker holds the file's lock, and the file names the holder. After a worker dies, its agent may still
//! run. So nobody else works in the folder until the same worker has restarted (which ends its old processes)
//! or a person has freed the folder (`ralph-worker free`).

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use ralph_shared::wire::sha256_hex;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::workspace::error::WorkspaceError;

/// The lock that serialises the search for a free folder.
const TURN: &str = "turn";

/// The session that holds a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirHolder {
    pub path: PathBuf,
    /// Data folder of the worker.
    pub data: PathBuf,
    pub dispatch: String,
    /// Start of the session, in RFC 3339.
    pub since: String,
}

impl std::fmt::Display for DirHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (dispatch, data, since) = (&self.dispatch, self.data.display(), &self.since);
        write!(
            f,
            "session {dispatch} of the worker whose data is in {data}, since {since}"
        )
    }
}

#[derive(Debug)]
pub(in crate::workspace) enum LockResult {
    /// This process holds the folder until the value is dropped.
    Ours(DirLock),
    /// A session works in the folder.
    Busy,
    /// A dead worker's session may still work in the folder.
    Abandoned(DirHolder),
}

/// A folder's lock. Dropping it releases the folder, as the session is over.
#[derive(Debug)]
pub(in crate::workspace) struct DirLock {
    file: File,
}

impl DirLock {
    pub(in crate::workspace) fn take(
        path: &Path,
        data: &Path,
        dispatch: &str,
    ) -> Result<LockResult, WorkspaceError> {
        let failed = || WorkspaceError::io("lock the folder", path);
        // Serialise the search, so that two processes can't take nested folders at once.
        let turn = Turn::wait().map_err(failed())?;
        let Some(mut file) = lock(path).map_err(failed())? else {
            return Ok(LockResult::Busy);
        };
        if let Some(other) = overlapping(path, data).map_err(failed())? {
            let _ = file.unlock();
            return Ok(other);
        }
        // This worker ended the processes of its own earlier instance before it took new work.
        if let Some(holder) = holder(&mut file).filter(|holder| holder.data != data) {
            let _ = file.unlock();
            return Ok(LockResult::Abandoned(holder));
        }
        let holder = DirHolder {
            path: path.to_owned(),
            data: data.to_owned(),
            dispatch: dispatch.to_owned(),
            since: OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default(),
        };
        let text = serde_json::to_vec(&holder).unwrap_or_default();
        let written = rewrite(&mut file, &text);
        written.map_err(failed())?;
        drop(turn);
        Ok(LockResult::Ours(Self { file }))
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        release(&mut self.file);
    }
}

/// Frees a folder held by a dead worker's session. Returns the previous holder; `None` when there was none.
///
/// # Errors
/// When a session of a live worker works in it, or the lock file can't be read.
pub fn free_dir(path: &Path) -> Result<Option<DirHolder>, WorkspaceError> {
    let path = &fs::canonicalize(path).map_err(WorkspaceError::io("find", path))?;
    let Some(mut file) = lock(path).map_err(WorkspaceError::io("lock the folder", path))? else {
        return Err(WorkspaceError::Dir {
            path: path.clone(),
            why: "a session works in it right now; `ralph task interrupt` ends it properly".to_owned(),
        });
    };
    let held = holder(&mut file);
    release(&mut file);
    Ok(held)
}

/// Frees the folders held by an earlier instance of the worker with this data folder. Its processes must have
/// ended.
pub(in crate::workspace) fn free_own(data: &Path) {
    let entries = locks().and_then(fs::read_dir).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(Some(mut file)) = lock_file(&entry.path()) else {
            continue;
        };
        match holder(&mut file) {
            Some(holder) if holder.data == data => release(&mut file),
            _ => drop(file.unlock()),
        }
    }
}

/// Lock for reading and changing holders; held only for a moment.
struct Turn(File);

impl Turn {
    fn wait() -> io::Result<Self> {
        let mut options = File::options();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(locks()?.join(TURN))?;
        file.lock()?;
        Ok(Self(file))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Closing the file is not enough, as in `release`.
        let _ = self.0.unlock();
    }
}

/// The holder of a folder inside this one or around it.
fn overlapping(path: &Path, data: &Path) -> io::Result<Option<LockResult>> {
    for entry in fs::read_dir(locks()?)?.flatten() {
        if entry.file_name() == TURN {
            continue;
        }
        let Ok(mut seen) = File::open(entry.path()) else {
            continue;
        };
        let Some(holder) = holder(&mut seen) else { continue };
        let nested = holder.path.starts_with(path) || path.starts_with(&holder.path);
        if !nested || holder.path == path {
            continue;
        }
        match seen.try_lock_shared() {
            Err(fs::TryLockError::Error(error)) => return Err(error),
            Err(fs::TryLockError::WouldBlock) => return Ok(Some(LockResult::Busy)),
            Ok(()) => {
                seen.unlock()?;
                // This worker ended the processes of its own earlier instance before it took new work.
                if holder.data != data {
                    return Ok(Some(LockResult::Abandoned(holder)));
                }
            }
        }
    }
    Ok(None)
}

fn lock(path: &Path) -> io::Result<Option<File>> {
    let name = sha256_hex(path.as_os_str().as_encoded_bytes());
    lock_file(&locks()?.join(name))
}

fn lock_file(path: &Path) -> io::Result<Option<File>> {
    let mut options = File::options();
    let file = options
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// The folder of the lock files, the same for all workers of one user.
fn locks() -> io::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    own_folder(PathBuf::from(format!("/tmp/ralph-dirs-{user}")))
}

/// Creates a private folder of this user in a directory that everybody may write. Fails if another user owns
/// it.
pub(in crate::workspace) fn own_folder(folder: PathBuf) -> io::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::symlink_metadata(&folder)?;
    if metadata.is_dir() && metadata.uid() == user {
        return Ok(folder);
    }
    let why = format!("{} belongs to somebody else; remove it", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

fn holder(file: &mut File) -> Option<DirHolder> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn rewrite(file: &mut File, text: &[u8]) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text)?;
    file.sync_data()
}

/// Closing the file is not enough: a child that another thread is starting holds it open until it executes.
fn release(file: &mut File) {
    if let Err(error) = file.set_len(0).and_then(|()| file.unlock()) {
        tracing::warn!(%error, "failed to release a folder");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &Path, data: &str) -> LockResult {
        DirLock::take(path, Path::new(data), "d-1").unwrap()
    }

    #[test]
    fn one_session_at_a_time_works_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        let LockResult::Ours(lock) = take(&path, "/one") else {
            panic!("it is free")
        };
        assert!(matches!(take(&path, "/one"), LockResult::Busy));
        assert!(matches!(take(&path, "/two"), LockResult::Busy));
        assert!(
            free_dir(&path)
                .unwrap_err()
                .to_string()
                .contains("task interrupt")
        );
        drop(lock);
        assert!(matches!(take(&path, "/two"), LockResult::Ours(_)));
        assert_eq!(free_dir(&path).unwrap(), None);
    }

    #[test]
    fn only_one_of_two_nested_folders_can_be_taken() {
        let folder = tempfile::tempdir().unwrap();
        let outer = fs::canonicalize(folder.path()).unwrap();
        let inner = outer.join("a/b");
        let beside = outer.with_extension("beside");
        let LockResult::Ours(lock) = take(&outer, "/one") else {
            panic!("it is free")
        };
        assert!(matches!(take(&inner, "/two"), LockResult::Busy));
        let LockResult::Ours(other) = take(&beside, "/two") else {
            panic!("it is another one")
        };
        drop(other);
        drop(lock);
        let LockResult::Ours(lock) = take(&inner, "/one") else {
            panic!("it is free")
        };
        assert!(matches!(take(&outer, "/two"), LockResult::Busy));
        // As the kernel does for a process that is killed.
        lock.file.unlock().unwrap();
        std::mem::forget(lock);
        assert!(matches!(take(&outer, "/two"), LockResult::Abandoned(holder) if holder.path == inner));
        assert!(
            matches!(take(&outer, "/one"), LockResult::Ours(_)),
            "it came back"
        );
        free_own(Path::new("/one"));
    }

    #[test]
    fn a_dead_workers_folder_is_freed_by_it_or_a_person() {
        let folder = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        let die = || {
            let LockResult::Ours(lock) = take(&path, "/one") else {
                panic!("it is free")
            };
            // As the kernel does for a process that is killed.
            lock.file.unlock().unwrap();
            std::mem::forget(lock);
        };
        die();
        let LockResult::Abandoned(holder) = take(&path, "/two") else {
            panic!("the agent may still run")
        };
        assert_eq!(
            (holder.dispatch.as_str(), holder.data.as_path()),
            ("d-1", Path::new("/one"))
        );
        assert!(matches!(take(&path, "/one"), LockResult::Ours(_)), "it came back");
        die();
        assert_eq!(free_dir(&path).unwrap().unwrap().data, Path::new("/one"));
        assert!(matches!(take(&path, "/two"), LockResult::Ours(_)));
        die();
        free_own(Path::new("/two"));
        assert!(matches!(take(&path, "/two"), LockResult::Abandoned(_)));
        free_own(Path::new("/one"));
        assert!(matches!(take(&path, "/two"), LockResult::Ours(_)));
    }
}
