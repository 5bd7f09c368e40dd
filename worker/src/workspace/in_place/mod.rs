//! A folder of this machine that agents work in directly (DESIGN 6, `dir`): no clone, no commit, one session
//! at a time.
//!
//! The worker's configuration lists the allowed folders, so a submitter can't point a session at `/etc`.
//! Changes are found by comparing a listing before and after the session. In a repository, the listings skip
//! files that `.gitignore` names. Git never runs there: agents may write its configuration.

pub(crate) mod leftovers;
pub(crate) mod lock;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ignore::WalkBuilder;
use ralph_shared::at_length::at_length;
use ralph_shared::wire::{CONTEXT_DIR, DirOrder, Snapshot};

use super::error::WorkspaceError;
use super::workspaces::Workspaces;
use crate::workspace::in_place::lock::{DirLock, LockResult};

/// How often a busy folder is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Largest `.gitignore` that is read. Bytes.
const MAX_RULES_BYTES: u64 = 1024 * 1024;
/// Largest number of files for which changes are computed: comparing more would take longer than the work.
const MAX_FILES: usize = 1_000_000;
/// Most changed paths in a snapshot.
const NAMED_PATHS: usize = 500;

/// A folder that one session has locked.
#[derive(Debug)]
pub(super) struct OpenDir {
    path: PathBuf,
    before: Option<Listing>,
    /// Released when the value is dropped.
    _lock: DirLock,
}

impl Workspaces {
    /// Locks a folder for a dispatch. Waits while another session of this machine works in it.
    ///
    /// # Errors
    /// When this worker may not work there, or a session holds the folder whose worker died and didn't
    /// restart.
    pub(super) async fn open_dir(&self, dispatch: &str, order: &DirOrder) -> Result<OpenDir, WorkspaceError> {
        let path = self.allowed(order)?;
        let mut logged = false;
        let lock = loop {
            match at_length(|| DirLock::take(&path, self.data(), dispatch))? {
                LockResult::Ours(lock) => break lock,
                LockResult::Abandoned(holder) => return Err(WorkspaceError::DirLeft { path, holder }),
                LockResult::Busy => {
                    if !std::mem::replace(&mut logged, true) {
                        tracing::info!(%dispatch, path = %path.display(), "waiting for a folder that another session uses");
                    }
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
        };
        // The path may have changed during the wait.
        if self.allowed(order)? != path {
            return Err(WorkspaceError::Dir {
                path,
                why: "the path now leads to another folder than when the session began to wait".to_owned(),
            });
        }
        let before = list(path.clone()).await;
        Ok(OpenDir {
            path,
            before,
            _lock: lock,
        })
    }

    fn allowed(&self, order: &DirOrder) -> Result<PathBuf, WorkspaceError> {
        let refuse = |why: &str| WorkspaceError::Dir {
            path: PathBuf::from(&order.path),
            why: why.to_owned(),
        };
        let path = fs::canonicalize(&order.path).map_err(|error| refuse(&read_failure(&error)))?;
        if !path.is_dir() {
            return Err(refuse("it is not a folder: submit again with one"));
        }
        let allowed = &self.settings().dirs;
        let below = |dir: &PathBuf| fs::canonicalize(dir).is_ok_and(|dir| path.starts_with(dir));
        if !allowed.iter().any(below) {
            return Err(refuse(
                "this worker may not: add it to `dirs` of [workspace] in its .ralph.toml, or start it with --dir",
            ));
        }
        if let Err(error) = fs::read_dir(&path) {
            return Err(refuse(&read_failure(&error)));
        }
        // Otherwise agents could read the worker's secrets and write files that it trusts.
        let own = self.data().parent().unwrap_or(self.data());
        if own.starts_with(&path) || path.starts_with(own) {
            return Err(refuse(
                "this worker's own data lies in it: give the worker another folder for that with --data",
            ));
        }
        let configured_in = &self.settings().configured_in;
        if configured_in.iter().any(|place| place.starts_with(&path)) {
            return Err(refuse(
                "this worker looks for its configuration (.ralph.toml) in it, so agents could change what runs on this machine: \
                 start the worker in another folder, or name a file elsewhere with --config",
            ));
        }
        Ok(path)
    }
}

/// Why a folder can't be read, and advice.
fn read_failure(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no such folder on this worker's machine: create it, or submit again with an existing one".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "this worker's user may not read it: give that user the right to, or run the worker as its owner".to_owned()
        }
        _ => format!("it can't be read: {error}"),
    }
}

impl OpenDir {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The paths that differ from the listing at the start, relative to the folder, lossily as UTF-8.
    pub(super) async fn changed(&self) -> Vec<String> {
        let (Some(before), Some(after)) = (&self.before, list(self.path.clone()).await) else {
            tracing::warn!(path = %self.path.display(), "can't list changed files: too many files, or an unreadable `.gitignore`");
            return Vec::new();
        };
        at_length(move || {
            let changed = before.differences(&after);
            changed.map(|path| path.to_string_lossy().into_owned()).collect()
        })
    }

    pub(super) async fn describe(&self, snapshot: &mut Snapshot) {
        let mut changed = self.changed().await;
        snapshot.files_changed_count = changed.len() as u64;
        changed.truncate(NAMED_PATHS);
        snapshot.files_changed = changed;
    }
}

/// Files of a folder with the data that shows a write: the time of the last status change, which no program
/// can set, and the size.
#[derive(Debug, Default)]
struct Listing {
    files: BTreeMap<PathBuf, (i64, i64, u64)>,
}

impl Listing {
    fn differences<'a>(&'a self, after: &'a Self) -> impl Iterator<Item = &'a PathBuf> {
        let gone = self.files.keys().filter(|path| !after.files.contains_key(*path));
        let other = after
            .files
            .iter()
            .filter(|(path, seen)| self.files.get(*path) != Some(*seen))
            .map(|(path, _)| path);
        gone.chain(other)
    }
}

async fn list(path: PathBuf) -> Option<Listing> {
    tokio::task::spawn_blocking(move || listing(&path))
        .await
        .ok()
        .flatten()
}

fn listing(path: &Path) -> Option<Listing> {
    let is_repository = path.join(".git").exists();
    // The context files that the worker writes for the session.
    let context = path.join(CONTEXT_DIR);
    let unreadable = Arc::new(AtomicBool::new(is_repository && has_unreadable_rules(path)));
    if unreadable.load(Ordering::Relaxed) {
        return None;
    }
    let found = Arc::clone(&unreadable);
    let walk = WalkBuilder::new(path)
        .standard_filters(false)
        .git_ignore(is_repository)
        .follow_links(false)
        .filter_entry(move |entry| {
            let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
            if is_repository && is_dir && has_unreadable_rules(entry.path()) {
                found.store(true, Ordering::Relaxed);
                return false;
            }
            entry.file_name() != ".git" && entry.path() != context
        })
        .build();
    let mut listing = Listing::default();
    // Unreadable files can't be compared; the agent's sandbox can hardly read them either.
    for entry in walk.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            continue;
        }
        if listing.files.len() == MAX_FILES {
            return None;
        }
        let seen = (metadata.ctime(), metadata.ctime_nsec(), metadata.len());
        let name = entry.path().strip_prefix(path).unwrap_or(entry.path());
        listing.files.insert(name.to_owned(), seen);
    }
    (!unreadable.load(Ordering::Relaxed)).then_some(listing)
}

/// Whether a folder's `.gitignore` must not be read: reading a pipe would block, and a device has no end.
fn has_unreadable_rules(folder: &Path) -> bool {
    let rules = fs::metadata(folder.join(".gitignore"));
    rules.is_ok_and(|rules| !rules.is_file() || rules.len() > MAX_RULES_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::settings::Settings;

    #[test]
    fn a_folder_with_an_endless_gitignore_is_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(".git")).unwrap();
        let below = folder.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        assert!(listing(folder.path()).is_some());
        let rules = below.join(".gitignore");
        std::os::unix::fs::symlink("/dev/zero", &rules).unwrap();
        assert!(listing(folder.path()).is_none());
        fs::remove_file(&rules).unwrap();
        nix::unistd::mkfifo(&rules, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(listing(folder.path()).is_none());
    }

    #[test]
    fn differences_are_changes_outside_ignored_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at(".git")).unwrap();
        fs::create_dir_all(at("target")).unwrap();
        for name in ["kept", "written", "removed", "target/old"] {
            fs::write(at(name), name).unwrap();
        }
        fs::write(at(".gitignore"), "target/\n").unwrap();
        let before = listing(folder.path()).unwrap();
        fs::write(at("written"), "WRITTEN").unwrap();
        fs::write(at(".hidden"), "").unwrap();
        fs::write(at("target/new"), "").unwrap();
        fs::write(at(".git/config"), "").unwrap();
        fs::remove_file(at("removed")).unwrap();
        let after = listing(folder.path()).unwrap();
        let mut changed: Vec<_> = before
            .differences(&after)
            .map(|path| path.to_str().unwrap())
            .collect();
        changed.sort_unstable();
        assert_eq!(changed, [".hidden", "removed", "written"]);
    }

    #[tokio::test]
    async fn a_folder_with_worker_configuration_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["data", "work/below", "work/here"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let settings = Settings {
            dirs: vec![root.join("work")],
            configured_in: vec![root.join("work/here")],
            ..Settings::default()
        };
        let workspaces = Workspaces::open_with(&root.join("data/git"), settings)
            .await
            .unwrap();
        let allowed = |name: &str| {
            workspaces.allowed(&DirOrder {
                path: root.join(name).display().to_string(),
            })
        };
        assert_eq!(allowed("work/below").unwrap(), root.join("work/below"));
        for name in ["work", "work/here"] {
            let refused = allowed(name).unwrap_err().to_string();
            assert!(refused.contains("--config"), "{refused}");
        }
    }
}
