//! Named folders that setup fills once for each state of their key files, such as `node_modules` for a lock
//! file (`[workspace.caches]`).
//!
//! ```text
//! caches/REPOSITORY/base/NAME-KEY             filled in a checkout of a feature's base without agents' commits
//! caches/REPOSITORY/FEATURE-BRANCH/NAME-KEY   filled in a checkout of work landed on that branch or its base
//! ```
//!
//! An attempt works on a copy. The files in the checkout decide what the commands write into a cache. So an
//! attempt that continues unlanded work, and a gate, only read from the caches, and work that landed in one
//! feature fills no cache for other features.

pub(crate) mod budget;
pub(crate) mod copy;
pub(crate) mod disk_room;
mod files;
pub(crate) mod unused;
pub(crate) mod warm;

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ralph_shared::at_length::at_length;
use ralph_shared::wire::{GitOrder, sha256_hex};

use super::commands::{self, CommandContext, CommandFailure};
use super::error::{GitError, WorkspaceError};
use super::git::Git;
use super::record;
use crate::faults;
use crate::workspace::paths::inside;
use crate::workspace::settings::CacheRule;
use crate::workspace::snapshot::commit::TASK_TRAILER;
use crate::workspace::{git::address, snapshot::modes};

/// Largest file of a key. Bytes.
const KEY_FILE_BYTES: u64 = 64 << 20;

/// The origin of the work in a checkout. It decides which cache the checkout may fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The feature's base, as people committed it.
    Base,
    /// Work that landed on the feature's branch, or on its base branch.
    Branch,
    /// An agent's work that has not landed.
    Attempt,
}

impl Origin {
    /// The origin of a checkout that starts at `start`. A base commit with a task's trailer comes from
    /// another feature's agents: such a checkout fills caches for this feature only.
    pub(super) async fn of(git: &Git, order: &GitOrder, start: &str) -> Result<Self, GitError> {
        if start == order.base {
            let format = format!("--format=%(trailers:key={TASK_TRAILER},valueonly)");
            let shown = git.run("log").args(["-1", &format, start]).output().await?;
            return Ok(match shown.word().is_empty() {
                true => Self::Base,
                false => Self::Branch,
            });
        }
        Ok(if order.start.is_none() && order.start_ref.is_none() {
            Self::Branch
        } else {
            Self::Attempt
        })
    }
}

/// The caches of a feature.
#[derive(Debug)]
pub(super) struct Shelf {
    base: PathBuf,
    branch: PathBuf,
}

impl Shelf {
    pub(super) fn new(data: &Path, order: &GitOrder) -> Self {
        let repository = record::caches(data).join(address::mirror_name(&order.repository.address));
        let branch = sha256_hex(order.feature_branch.as_bytes());
        Self {
            base: repository.join("base"),
            branch: repository.join(&branch[..16]),
        }
    }

    fn find(&self, entry: &str) -> Option<PathBuf> {
        let places = [&self.base, &self.branch].map(|folder| folder.join(entry));
        places.into_iter().find(|place| place.is_dir())
    }

    fn place(&self, origin: Origin, entry: &str) -> Option<PathBuf> {
        match origin {
            Origin::Base => Some(self.base.join(entry)),
            Origin::Branch => Some(self.branch.join(entry)),
            Origin::Attempt => None,
        }
    }
}

/// Prepares a checkout: copies caches in, runs the commands of missing caches, then runs the setup commands
/// of every checkout. Filled folders are kept only when all of that succeeded.
///
/// # Errors
/// When commands can't be sandboxed, or a copy can't be written.
pub(super) async fn set_up(
    context: CommandContext<'_>,
    shelf: &Shelf,
    origin: Origin,
) -> Result<Option<CommandFailure>, WorkspaceError> {
    let mut filled = Vec::new();
    for rule in &context.settings.caches {
        let Some(entry) = at_length(|| entry(rule, context.tree)) else {
            continue;
        };
        if let Some(found) = shelf.find(&entry)
            && restore(&found, context.tree, &rule.path).await?
        {
            faults::point("cache.restored");
            continue;
        }
        faults::point("cache.before_fill");
        if let Some(failure) = commands::run(&rule.setup, context).await? {
            return Ok(Some(failure));
        }
        filled.extend(shelf.place(origin, &entry).map(|place| (rule, place)));
    }
    if let Some(failure) = commands::run(&context.settings.setup, context).await? {
        return Ok(Some(failure));
    }
    faults::point("cache.filled");
    for (rule, place) in filled {
        keep(context.tree, &rule.path, &place).await?;
    }
    Ok(None)
}

/// The name of the cache entry for this checkout.
fn entry(rule: &CacheRule, tree: &Path) -> Option<String> {
    let mut key = format!("{}\0{:?}\0", rule.path.display(), rule.setup).into_bytes();
    for name in &rule.key {
        let folder = inside(tree, name.parent().unwrap_or(Path::new("")))?;
        let path = folder.join(name.file_name()?);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > KEY_FILE_BYTES {
            return None;
        }
        key.extend_from_slice(name.as_os_str().as_encoded_bytes());
        key.push(0);
        key.extend_from_slice(&metadata.len().to_le_bytes());
        File::open(&path)
            .ok()?
            .take(KEY_FILE_BYTES)
            .read_to_end(&mut key)
            .ok()?;
    }
    Some(format!("{}-{}", rule.name, &sha256_hex(&key)[..32]))
}

/// Copies a cache into the checkout; `false` where the repository itself has something at the path, or the
/// cache is gone.
async fn restore(found: &Path, tree: &Path, path: &Path) -> Result<bool, WorkspaceError> {
    let Some(parent) = inside(tree, path.parent().unwrap_or(Path::new(""))) else {
        return Ok(false);
    };
    let to = parent.join(path.file_name().unwrap_or_default());
    if fs::symlink_metadata(&to).is_ok() {
        return Ok(false);
    }
    faults::point("cache.before_restore");
    let from = found.to_owned();
    let copied = tokio::task::spawn_blocking(move || {
        let copied = copy::copy_tree(&from, &to);
        if copied.is_err() {
            let _ = modes::remove_tree(&to);
        }
        // The disk budget removes the least recently used caches first.
        let _ = File::open(&from).and_then(|folder| folder.set_modified(SystemTime::now()));
        copied
    });
    let copied = copied.await.unwrap_or_else(|stopped| Err(stopped.into()));
    if copied.is_err() && !found.exists() {
        // The cache was removed meanwhile to free space.
        return Ok(false);
    }
    copied
        .map(|_| true)
        .map_err(WorkspaceError::io("copy the cache", found))
}

/// Keeps a copy of a filled folder, moved into place atomically.
async fn keep(tree: &Path, path: &Path, place: &Path) -> Result<(), WorkspaceError> {
    let Some(from) = inside(tree, path) else {
        tracing::warn!(path = %path.display(), "setup did not create the folder of a cache");
        return Ok(());
    };
    let folder = place.parent().unwrap_or(place);
    record::make_private(folder)?;
    let place = place.to_owned();
    let new = place.with_extension(uuid::Uuid::new_v4().simple().to_string());
    faults::point("cache.before_copy");
    let kept = tokio::task::spawn_blocking(move || {
        let kept = copy::copy_tree(&from, &new)
            .and_then(|_| File::open(&new)?.set_modified(SystemTime::now()))
            .and_then(|()| {
                faults::point("cache.before_rename");
                fs::rename(&new, &place)
            });
        if kept.is_err() {
            let _ = modes::remove_tree(&new);
        }
        // If the place exists now, another attempt was faster.
        if place.is_dir() { Ok(()) } else { kept }
    });
    let kept = kept.await.unwrap_or_else(|stopped| Err(stopped.into()));
    faults::point("cache.kept");
    kept.map_err(WorkspaceError::io("keep the cache", folder))
}

/// Deletes incomplete copies of dead processes. The caller must be sure that nobody prepares a checkout.
pub(super) fn delete_halves(data: &Path) {
    // The name of a complete entry has no dot.
    for half in files::caches(data).filter(|path| path.extension().is_some()) {
        if let Err(error) = modes::remove_tree(&half) {
            tracing::warn!(cache = %half.display(), %error, "failed to delete an incomplete cache");
        }
    }
}
