//! A bare copy of a repository on this machine, of which clones borrow objects.
//!
//! It only ever gains objects: they are packed together (`pack`), never collected while it exists. Its refs are a cache; its lock file
//! makes it safe to share between processes. A mirror that git can't use any more is put beside and fetched anew, and
//! goes on lending what it still has.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ralph_shared::at_length::at_length;
use ralph_shared::attempts::REFS;

use super::gitdir::{self, Head, ObjectFormat};
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::address;
use crate::workspace::git::{Git, REMOTE};
use crate::workspace::settings::History;
use crate::workspace::snapshot::modes;

/// Longest wait for the mirror while somebody else fetches into it.
const LOCK_WAIT: Duration = Duration::from_secs(20 * 60);

/// The mirror of one repository.
#[derive(Debug)]
pub(in crate::workspace) struct Mirror {
    pub(in crate::workspace) git: Git,
    format: ObjectFormat,
    address: String,
    pub(in crate::workspace) history: History,
}

/// What a caller needs from the remote.
#[derive(Debug)]
pub(in crate::workspace) struct FetchRequest<'a> {
    /// Refs (whole names) to fetch as they are now; each may be missing.
    pub refs: Vec<&'a str>,
    /// A commit that is needed only if the first of the refs is missing.
    pub base: &'a str,
    /// A commit that must be there afterwards if the remote has it in any way.
    pub commit: Option<&'a str>,
}

/// What is there after a fetch; `None` for what isn't.
#[derive(Debug)]
pub(in crate::workspace) struct Fetched {
    /// In the order in which they were wanted.
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
    /// The mirror of `git`'s repository, in `git`'s directory; not touched yet.
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

    /// The folder from which clones borrow.
    pub(in crate::workspace) fn objects(&self) -> PathBuf {
        self.git.dir().join("objects")
    }

    /// Makes the mirror if there is none, with nothing in it yet.
    pub(in crate::workspace) async fn ensure(&self) -> Result<(), WorkspaceError> {
        let _lock = self.lock().await?;
        self.make_if_missing()
    }

    /// Brings what is wanted from the remote.
    ///
    /// # Errors
    /// When the remote can't be reached or refuses; when the mirror can't be used even after it was made anew.
    pub(in crate::workspace) async fn fetch(
        &self,
        wanted: &FetchRequest<'_>,
    ) -> Result<Fetched, WorkspaceError> {
        let _lock = self.lock().await?;
        self.make_if_missing()?;
        match self.fetch_locked(wanted).await {
            Err(error) if error.suspects_objects() => {
                tracing::warn!(%error, "mirror can't be used");
                self.make_anew(wanted).await
            }
            other => Ok(other?),
        }
    }

    /// Makes the mirror anew because its use showed that objects in it are broken.
    pub(in crate::workspace) async fn rebuild(
        &self,
        wanted: &FetchRequest<'_>,
    ) -> Result<Fetched, WorkspaceError> {
        let _lock = self.lock().await?;
        self.make_anew(wanted).await
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
        // Not every server gives out a commit by its id; then it may still be below a branch.
        match self.fetch_arguments(missing).await {
            Err(error) if error.trouble.is_remote() && !error.words.contains("not our ref") => {
                return Err(error);
            }
            _ => fetched = self.look_up(wanted).await?,
        }
        if !fetched.missing(wanted).is_empty() {
            let mut options = self.history.options(self.git.dir());
            // Else one that is gone leaves no room for those below its name.
            options.push("--prune".to_owned());
            // An attempt may have been moved since its name was told.
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
            let refspecs = refs.iter().map(|name| format!("+{name}:{name}"));
            let Err(error) = self.fetch_arguments(refspecs).await else {
                break;
            };
            if let Some(gone) = missing_ref(&error.words, &refs) {
                self.git.run("update-ref").args(["-d", gone]).output().await?;
                refs.retain(|name| *name != gone);
            } else if !lacks_room(&error.words) || !self.make_room_for(&refs).await? {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Deletes the refs here that leave no room for `refs`, all of which the remote has: a branch `a` and one below `a/` are never
    /// there at once, so these are gone from it. Whether there were any.
    async fn make_room_for(&self, refs: &[&str]) -> Result<bool, GitError> {
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
            // A remote may be a shallow clone itself: without this git leaves out where its history ends, and looks for what is beyond.
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
                // By which a mirror that nobody uses any more is known.
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
        // An instance that died while it replaced the mirror had the new one ready, with the old one lent to it.
        let new = dir.with_extension("new");
        if gitdir::lender(&new).is_some() {
            return fs::rename(&new, dir).map_err(WorkspaceError::io("replace the mirror", dir));
        }
        self.make()
    }

    fn make(&self) -> Result<(), WorkspaceError> {
        let dir = self.git.dir();
        // No branch of this name is ever fetched, so that HEAD is never a real one.
        let head = Head::Ref("refs/ralph/none");
        gitdir::make(dir, self.format, head, None, true, &self.history.config())
            .map_err(WorkspaceError::io("make the mirror", dir))
    }

    /// Fetches into a new mirror, which then takes the old one's place. The old one stays beside it, and what is still
    /// in it can be found from the new one: clones that borrow here lose nothing.
    async fn make_anew(&self, wanted: &FetchRequest<'_>) -> Result<Fetched, WorkspaceError> {
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
        // Where its own history ends, the new one knows by itself.
        gitdir::lend(new.git.dir(), &beside.join("objects"))
            .and_then(|()| fs::rename(dir, &beside))
            .and_then(|()| fs::rename(new.git.dir(), dir))
            .map_err(WorkspaceError::io("replace the mirror", dir))?;
        tracing::warn!(address = %address::public(&self.address), old = %beside.display(), "mirror made anew");
        Ok(fetched)
    }
}

/// The file by whose lock a mirror belongs to one process at a time. When it was changed last says when the mirror was used.
pub(in crate::workspace) fn lock_of(mirror: &Path) -> PathBuf {
    mirror.with_extension("lock")
}

/// A mirror's lock. It is given back, not only closed: a child that another thread is just starting has it open too, until it executes.
#[derive(Debug)]
pub(in crate::workspace) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "failed to give back the lock of a mirror");
        }
    }
}

/// The lock of a mirror, unless somebody has it. Nothing is written, so that it doesn't count as used.
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

/// Removes what a git that was killed has left in a mirror, whose lock the caller has.
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

/// What a git that was killed has begun to write goes at once, since whoever writes has the mirror's lock; but after so long in a partial
/// one, into which checkouts fetch without it.
const HALVES: Duration = Duration::from_secs(60 * 60);

/// Begin of the extension of broken mirrors.
const BROKEN: &str = "broken-";

/// Deletes broken mirrors below `mirrors`; the caller is sure that no clone borrows from any.
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

/// Which of `refs` the remote doesn't have, by git's words.
fn missing_ref<'a>(words: &str, refs: &[&'a str]) -> Option<&'a str> {
    let named = words
        .lines()
        .find_map(|line| line.split_once("couldn't find remote ref ").map(|(_, name)| name))?;
    refs.iter().copied().find(|name| *name == named.trim())
}

/// Whether git got what it was to fetch, but found another ref where one was to be. Which one that is, it doesn't always say.
fn lacks_room(words: &str) -> bool {
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
