//! A bare copy of a repository on this machine. Clones borrow its objects.
//!
//! A mirror only gains objects: they are packed (`pack`), but never collected while the mirror exists. Its
//! refs are a cache, and its lock file makes it safe to share between processes. A mirror that git can't use
//! any more is renamed and fetched anew; it still lends its intact objects.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ralph_shared::at_length::at_length;
use ralph_shared::attempts::{self, REFS};

use super::gitdir::{self, Head, ObjectFormat};
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::address;
use crate::workspace::git::{Git, REMOTE};
use crate::workspace::settings::History;
use crate::workspace::snapshot::modes;

/// Longest wait for another process's fetch into the mirror.
const LOCK_WAIT: Duration = Duration::from_secs(20 * 60);

#[derive(Debug)]
pub(in crate::workspace) struct Mirror {
    pub(in crate::workspace) git: Git,
    format: ObjectFormat,
    address: String,
    pub(in crate::workspace) history: History,
}

/// A caller's request to the remote.
#[derive(Debug)]
pub(in crate::workspace) struct FetchRequest<'a> {
    /// Refs (whole names) to fetch at their current state; each may be missing. The mirror keeps the objects
    /// of an attempt, but not its ref.
    pub refs: Vec<&'a str>,
    /// A commit that is needed only if the first of the refs is missing.
    pub base: &'a str,
    /// A commit to fetch if the remote has it on any ref.
    pub commit: Option<&'a str>,
}

/// Objects that are present after a fetch; `None` for missing ones.
#[derive(Debug)]
pub(in crate::workspace) struct Fetched {
    /// In the order of the request; `None` for attempts too.
    pub refs: Vec<Option<String>>,
    pub base: Option<String>,
    pub commit: Option<String>,
}

impl Fetched {
    fn missing<'a>(&self, wanted: &FetchRequest<'a>) -> Vec<&'a str> {
        let needs_base = self.base.is_none() && self.refs.first().is_none_or(Option::is_none);
        let base = needs_base.then_some(wanted.base);
        let commit = wanted.commit.filter(|_| self.commit.is_none());
        base.into_iter().chain(commit).collect()
    }
}

impl Mirror {
    /// The mirror of `git`'s repository, in `git`'s directory. Doesn't touch the disk.
    pub(in crate::workspace) fn new(
        git: Git,
        format: ObjectFormat,
        address: &str,
        history: &History,
    ) -> Self {
        Self {
            git,
            format,
            address: address.to_owned(),
            history: history.clone(),
        }
    }

    /// The object folder that clones borrow from.
    pub(in crate::workspace) fn objects(&self) -> PathBuf {
        self.git.dir().join("objects")
    }

    /// Creates an empty mirror if none exists.
    pub(in crate::workspace) async fn ensure(&self) -> Result<(), WorkspaceError> {
        let _lock = self.lock().await?;
        self.make_if_missing()
    }

    /// Fetches the requested refs and commits from the remote.
    ///
    /// # Errors
    /// When the remote can't be reached or refuses, or the mirror is unusable even after it was recreated.
    pub(in crate::workspace) async fn fetch(
        &self,
        wanted: &FetchRequest<'_>,
    ) -> Result<Fetched, WorkspaceError> {
        let _lock = self.lock().await?;
        self.make_if_missing()?;
        match self.fetch_locked(wanted).await {
            Err(error) if error.suspects_objects() => {
                tracing::warn!(%error, "mirror is unusable");
                self.recreate(wanted).await
            }
            other => Ok(other?),
        }
    }

    /// Recreates the mirror after its use showed broken objects.
    pub(in crate::workspace) async fn rebuild(
        &self,
        wanted: &FetchRequest<'_>,
    ) -> Result<Fetched, WorkspaceError> {
        let _lock = self.lock().await?;
        self.recreate(wanted).await
    }

    /// Whether the remote has no branch at all.
    pub(in crate::workspace) async fn remote_is_empty(&self) -> bool {
        let heads = self
            .git
            .run("ls-remote")
            .args(["--heads", REMOTE])
            .first_bytes(1)
            .remote()
            .output();
        heads.await.is_ok_and(|output| output.stdout.is_empty())
    }

    async fn fetch_locked(&self, wanted: &FetchRequest<'_>) -> Result<Fetched, GitError> {
        self.fetch_refs(&wanted.refs).await?;
        let mut fetched = self.look_up(wanted).await?;
        let missing = fetched.missing(wanted);
        if missing.is_empty() {
            return Ok(fetched);
        }
        // Not every server serves a commit by its id; the commit may still be below a branch.
        match self.fetch_arguments(missing).await {
            Err(error) if error.trouble.is_remote() && !error.words.contains("not our ref") => {
                return Err(error);
            }
            _ => fetched = self.look_up(wanted).await?,
        }
        if !fetched.missing(wanted).is_empty() {
            let mut options = self.history.options(self.git.dir());
            // A deleted branch `a` would otherwise exclude branches below `a/`.
            options.push("--prune".to_owned());
            // The attempt may have moved since the order was written.
            let attempts = format!("+{REFS}*:{REFS}*");
            let branches = "+refs/heads/*:refs/heads/*".to_owned();
            self.fetch_with(options, [branches, attempts]).await?;
            fetched = self.look_up(wanted).await?;
        }
        Ok(fetched)
    }

    async fn fetch_refs(&self, refs: &[&str]) -> Result<(), GitError> {
        let mut refs = refs.to_vec();
        refs.dedup();
        while !refs.is_empty() {
            // Git reads all refs of the mirror in each fetch, and the commit of an attempt is known.
            let refspecs = refs.iter().map(|name| match attempts::below(name) {
                Some(_) => (*name).to_owned(),
                None => format!("+{name}:{name}"),
            });
            let Err(error) = self.fetch_arguments(refspecs).await else {
                break;
            };
            if let Some(gone) = missing_ref(&error.words, &refs) {
                self.git.run("update-ref").args(["-d", gone]).output().await?;
                refs.retain(|name| *name != gone);
            } else if !has_ref_collision(&error.words) || !self.delete_colliding_refs(&refs).await? {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Deletes local refs that collide with `refs`, all of which the remote has: a branch `a` and one below
    /// `a/` can't exist at once, so the remote no longer has the deleted ones. Returns whether there were
    /// any.
    async fn delete_colliding_refs(&self, refs: &[&str]) -> Result<bool, GitError> {
        let here = self.git.run("for-each-ref").args(["--format=%(refname)"]);
        let here = here.output().await?.text();
        let gone: String = here
            .lines()
            .filter(|found| {
                refs.iter()
                    .any(|name| is_below(found, name) || is_below(name, found))
            })
            .map(|found| format!("delete {found}\n"))
            .collect();
        if gone.is_empty() {
            return Ok(false);
        }
        let delete = self.git.run("update-ref").args(["--stdin"]).input(gone);
        delete.output().await?;
        Ok(true)
    }

    pub(in crate::workspace) async fn fetch_arguments<I: IntoIterator<Item: Into<OsString>>>(
        &self,
        refspecs: I,
    ) -> Result<(), GitError> {
        let bounds = self.history.options(self.git.dir());
        self.fetch_with(bounds, refspecs).await
    }

    pub(in crate::workspace) async fn fetch_with<I: IntoIterator<Item: Into<OsString>>>(
        &self,
        more: Vec<String>,
        refspecs: I,
    ) -> Result<(), GitError> {
        let options = [
            "--quiet",
            "--no-tags",
            "--no-auto-maintenance",
            "--no-write-fetch-head",
            // A remote may be a shallow clone. Without this option, git doesn't take over where its history
            // ends, and asks for missing parents.
            "--update-shallow",
        ];
        self.git
            .run("fetch")
            .args(options)
            .args(more)
            .args([REMOTE])
            .args(refspecs)
            .remote()
            .output()
            .await?;
        Ok(())
    }

    async fn look_up(&self, wanted: &FetchRequest<'_>) -> Result<Fetched, GitError> {
        let names = wanted
            .refs
            .iter()
            .copied()
            .chain([wanted.base])
            .chain(wanted.commit);
        let input: String = names.map(|name| format!("{name}^{{commit}}\n")).collect();
        let found = self
            .git
            .run("cat-file")
            .args(["--batch-check"])
            .input(input)
            .output()
            .await?
            .text();
        let mut found = found
            .lines()
            .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
                [id, "commit", _] => Some(id.to_owned()),
                _ => None,
            });
        let refs = found.by_ref().take(wanted.refs.len()).collect();
        Ok(Fetched {
            refs,
            base: found.next().flatten(),
            commit: found.next().flatten(),
        })
    }

    pub(in crate::workspace) async fn lock(&self) -> Result<Lock, WorkspaceError> {
        let path = lock_of(self.git.dir());
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = file.map_err(WorkspaceError::io("open the lock", &path))?;
        let waited = tokio::task::spawn_blocking(move || file.lock().map(|()| Lock(file)));
        match tokio::time::timeout(LOCK_WAIT, waited).await {
            Ok(Ok(locked)) => locked
                // The lock's time marks the mirror's last use.
                .and_then(|lock| lock.0.set_modified(SystemTime::now()).map(|()| lock))
                .map_err(WorkspaceError::io("lock", &path)),
            Ok(Err(stopped)) => Err(WorkspaceError::io("lock", &path)(stopped.into())),
            Err(_) => Err(WorkspaceError::io("lock", &path)(
                std::io::ErrorKind::TimedOut.into(),
            )),
        }
    }

    fn make_if_missing(&self) -> Result<(), WorkspaceError> {
        let dir = self.git.dir();
        if dir.join("HEAD").exists() {
            return clean(dir);
        }
        // An instance died while it replaced the mirror: the new one is complete and borrows from the old
        // one.
        let new = dir.with_extension("new");
        if gitdir::lender(&new).is_some() {
            return fs::rename(&new, dir).map_err(WorkspaceError::io("replace the mirror", dir));
        }
        self.make()
    }

    fn make(&self) -> Result<(), WorkspaceError> {
        let dir = self.git.dir();
        // No ref of this name is ever fetched, so HEAD never points to a real branch.
        let head = Head::Ref("refs/ralph/none");
        gitdir::make(dir, self.format, head, None, true, &self.history.config())
            .map_err(WorkspaceError::io("make the mirror", dir))
    }

    /// Fetches into a new mirror, which then replaces the old one. The new mirror borrows from the old one,
    /// which stays beside it, so clones that borrow here lose nothing.
    async fn recreate(&self, wanted: &FetchRequest<'_>) -> Result<Fetched, WorkspaceError> {
        let dir = self.git.dir();
        let new = Self {
            git: self.git.at(dir.with_extension("new")),
            address: self.address.clone(),
            history: self.history.clone(),
            ..*self
        };
        modes::remove_tree(new.git.dir()).map_err(WorkspaceError::io("remove", new.git.dir()))?;
        new.make()?;
        let fetched = new.fetch_locked(wanted).await?;
        let beside = (1_u32..)
            .map(|number| dir.with_extension(format!("{BROKEN}{number}")))
            .find(|path| !path.exists())
            .unwrap_or_else(|| dir.with_extension(BROKEN));
        // The new mirror has its own record of where a shallow history ends.
        gitdir::lend(new.git.dir(), &beside.join("objects"))
            .and_then(|()| fs::rename(dir, &beside))
            .and_then(|()| fs::rename(new.git.dir(), dir))
            .map_err(WorkspaceError::io("replace the mirror", dir))?;
        tracing::warn!(address = %address::public(&self.address), old = %beside.display(), "mirror recreated");
        Ok(fetched)
    }
}

/// The lock file of a mirror. Its modification time is the mirror's last use.
pub(in crate::workspace) fn lock_of(mirror: &Path) -> PathBuf {
    mirror.with_extension("lock")
}

/// A mirror's lock. Dropping unlocks the file explicitly: a child that another thread is starting holds it
/// open until it executes.
#[derive(Debug)]
pub(in crate::workspace) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "failed to release the lock of a mirror");
        }
    }
}

/// Locks a mirror without waiting; `None` when it is in use. Writes nothing, so this doesn't count as a use.
pub(in crate::workspace) fn try_lock(mirror: &Path) -> Result<Option<Lock>, WorkspaceError> {
    let path = lock_of(mirror);
    let lock = File::options().write(true).open(&path);
    let lock = lock.map_err(WorkspaceError::io("open the lock", &path))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(Lock(lock))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(WorkspaceError::io("lock", &path)(error)),
    }
}

/// Removes files of a killed git from a mirror. The caller holds the mirror's lock.
pub(in crate::workspace) fn clean(mirror: &Path) -> Result<(), WorkspaceError> {
    let objects = mirror.join("objects");
    let older = if gitdir::is_partial(&objects) {
        HALVES
    } else {
        Duration::ZERO
    };
    let cleaned = at_length(|| {
        gitdir::remove_halves(&objects, older);
        gitdir::remove_stale_locks(mirror)
    });
    cleaned.map_err(WorkspaceError::io("clean", mirror))
}

/// Minimum age of half-written files in a partial mirror, because checkouts fetch into it without its lock.
/// In other mirrors such files are removed at once: every writer holds the lock.
const HALVES: Duration = Duration::from_secs(60 * 60);

/// Prefix of the file extension of broken mirrors.
const BROKEN: &str = "broken-";

/// Deletes broken mirrors below `mirrors`. The caller must be sure that no clone borrows from them.
pub(in crate::workspace) fn delete_broken(mirrors: &Path) {
    for entry in fs::read_dir(mirrors).into_iter().flatten().flatten() {
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if !extension.is_some_and(|extension| extension.starts_with(BROKEN)) {
            continue;
        }
        let lender = path.with_extension("").join("objects/info/alternates");
        let _ = fs::remove_file(lender);
        if let Err(error) = modes::remove_tree(&path) {
            tracing::warn!(mirror = %path.display(), %error, "failed to delete a broken mirror");
        }
    }
}

/// The ref that the remote lacks, by git's words.
fn missing_ref<'a>(words: &str, refs: &[&'a str]) -> Option<&'a str> {
    let named = words
        .lines()
        .find_map(|line| line.split_once("couldn't find remote ref ").map(|(_, name)| name))?;
    refs.iter().copied().find(|name| *name == named.trim())
}

/// Whether git fetched, but could not store a ref because another one is in the way. Git doesn't always name
/// that one.
fn has_ref_collision(words: &str) -> bool {
    words.contains("exists; cannot create") || words.contains("some local refs could not be updated")
}

fn is_below(name: &str, upper: &str) -> bool {
    name.strip_prefix(upper).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_below_another_by_whole_parts() {
        assert!(is_below("refs/heads/release/2.0", "refs/heads/release"));
        assert!(!is_below("refs/heads/release2", "refs/heads/release"));
        assert!(!is_below("refs/heads/release", "refs/heads/release"));
        assert!(!is_below("refs/heads/release", "refs/heads/release/2.0"));
    }

    #[test]
    fn missing_refs_are_found_by_name() {
        let refs = ["refs/heads/a", "refs/heads/ab"];
        assert_eq!(
            missing_ref("fatal: couldn't find remote ref refs/heads/ab\n", &refs),
            Some("refs/heads/ab")
        );
        assert_eq!(
            missing_ref("fatal: couldn't find remote ref refs/heads/c", &refs),
            None
        );
        assert_eq!(missing_ref("fatal: bad object", &refs), None);
    }
}
