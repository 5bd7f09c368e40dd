//! Packs mirrors. Each fetch adds loose objects or a pack, and a ref in a file of its own, and git searches
//! all of them for every object.
//!
//! No object is ever collected, even without a ref, since clones may borrow it. Small packs and loose objects
//! are rolled up into a larger pack (`git repack --geometric`) and removed when that pack exists. A large
//! pack stays, so the work is proportional to the fetched data. A git that borrows from here meanwhile looks
//! for packs again when it misses one. Packing holds the lock that fetches wait for, so its time is limited,
//! and after a failure the next try comes a day later.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{gitdir, mirror};
use crate::workspace::error::WorkspaceError;
use crate::workspace::git::Git;
use crate::workspace::record;
use crate::workspace::workspaces::Workspaces;

/// Longest git run while packing one mirror.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Pause after a mirror could not be packed.
const RETRY_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);
/// File in a mirror whose modification time is the last failure.
const FAILED: &str = "ralph-not-packed";

/// Numbers of files above which a mirror is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untidy {
    pub packs: usize,
    pub loose: usize,
}

impl Default for Untidy {
    /// About the limits of git's own garbage collection.
    fn default() -> Self {
        Self {
            packs: 50,
            loose: 6_000,
        }
    }
}

impl Workspaces {
    /// Packs the mirrors that hold more than `most`, one after the other, and returns how many. Skips a
    /// mirror in use. Dropping the future kills git without loss.
    pub async fn pack_mirrors(&self, most: Untidy) -> usize {
        let mirrors = record::mirrors(self.data());
        let due = tokio::task::spawn_blocking(move || due(&mirrors, most)).await;
        let mut packed = 0;
        for mirror in due.unwrap_or_default() {
            match pack(&self.git_in(mirror.clone())).await {
                Ok(true) => packed += 1,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(mirror = %mirror.display(), %error, "failed to pack a mirror");
                    // If this fails, the next try only comes sooner.
                    let _ = File::create(mirror.join(FAILED));
                }
            }
        }
        packed
    }
}

/// Packs one mirror; `false` when its lock is held.
async fn pack(git: &Git) -> Result<bool, WorkspaceError> {
    let dir = git.dir();
    let Some(_lock) = mirror::try_lock(dir)? else {
        return Ok(false);
    };
    mirror::clean(dir)?;
    git.run("repack")
        .args(["-d", "-l", "-q", "-n", "--geometric=2", "--no-write-bitmap-index"])
        .args(["--threads=1", "--window-memory=256m"])
        .gently_within(TIMEOUT)
        .output()
        .await?;
    git.run("pack-refs")
        .args(["--all"])
        .gently_within(TIMEOUT)
        .output()
        .await?;
    tracing::info!(mirror = %dir.display(), "packed a mirror");
    Ok(true)
}

/// The mirrors that hold more than `most`.
fn due(mirrors: &Path, most: Untidy) -> Vec<PathBuf> {
    entries(mirrors)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_none() && is_due(path, most))
        .collect()
}

fn is_due(mirror: &Path, most: Untidy) -> bool {
    let objects = mirror.join("objects");
    let failed = fs::metadata(mirror.join(FAILED)).and_then(|noted| noted.modified());
    let is_paused = failed.is_ok_and(|at| at.elapsed().is_ok_and(|since| since < RETRY_PAUSE));
    // Git can't roll up partial packs. Objects borrowed from a broken mirror go when that mirror is deleted.
    let can_pack = mirror.join("HEAD").exists()
        && !is_paused
        && !gitdir::is_partial(&objects)
        && gitdir::lender(mirror).is_none();
    can_pack && (packs(&objects) > most.packs || has_loose(&objects, most.loose))
}

fn packs(objects: &Path) -> usize {
    let packs = entries(&objects.join("pack")).map(|entry| entry.path());
    let packs = packs.filter(|path| path.extension().is_some_and(|extension| extension == "pack"));
    // A killed fetch can leave a `.keep` file; git never rolls such a pack up.
    packs.filter(|path| !path.with_extension("keep").exists()).count()
}

/// Whether there are more than `most` loose objects.
fn has_loose(objects: &Path, most: usize) -> bool {
    let folders = entries(objects).filter(|entry| entry.file_name().len() == 2);
    folders
        .flat_map(|folder| entries(&folder.path()))
        .nth(most)
        .is_some()
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}
