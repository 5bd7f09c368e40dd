//! Packs mirrors: each fetch leaves loose objects or a pack of its own, and a ref in a file, and git looks through all of them for whatever
//! it is asked.
//!
//! Nothing is collected, whether a ref leads to it or not, since clones may borrow it. Small packs and loose objects are rolled up into a larger
//! pack (`git repack --geometric`), and go once that is there; a large one stays as it is, so that the work is in proportion to what was
//! fetched. A git that borrows from here meanwhile looks for packs again when it misses one. Whoever wants to fetch waits for the lock, so it is
//! bounded, and tried again only a day after it could not be done.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{gitdir, mirror};
use crate::workspace::error::WorkspaceError;
use crate::workspace::git::Git;
use crate::workspace::record;
use crate::workspace::workspaces::Workspaces;

/// Longest run of git that packs one mirror.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// A mirror that could not be packed is left alone for so long.
const REST: Duration = Duration::from_secs(24 * 60 * 60);
/// Says in a mirror, by its age, when that was.
const FAILED: &str = "ralph-not-packed";

/// What a mirror may hold before it is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untidy {
    pub packs: usize,
    /// Objects in files of their own.
    pub loose: usize,
}

impl Default for Untidy {
    /// About as much as git itself lets gather before it collects.
    fn default() -> Self {
        Self {
            packs: 50,
            loose: 6_000,
        }
    }
}

impl Workspaces {
    /// Packs the mirrors that hold more than `most`, one after the other. One that somebody uses just now is left for the next time. Whoever
    /// drops this ends git; nothing is lost by it. Returns how many were packed.
    pub async fn pack_mirrors(&self, most: Untidy) -> usize {
        let mirrors = record::mirrors(self.data());
        let due = tokio::task::spawn_blocking(move || due(&mirrors, most)).await;
        let mut packed = 0;
        for mirror in due.unwrap_or_default() {
            match pack(&self.git_in(mirror.clone())).await {
                Ok(true) => packed += 1,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(mirror = %mirror.display(), %error, "a mirror could not be packed");
                    // Else it is tried again sooner.
                    let _ = File::create(mirror.join(FAILED));
                }
            }
        }
        packed
    }
}

/// Packs one mirror; `false` when somebody has it.
async fn pack(git: &Git) -> Result<bool, WorkspaceError> {
    let dir = git.dir();
    let Some(_lock) = mirror::try_lock(dir)? else {
        return Ok(false);
    };
    mirror::clean(dir)?;
    git.run("repack")
        .args(["-d", "-l", "-q", "-n", "--geometric=2", "--no-write-bitmap-index"])
        .args(["--threads=1", "--window-memory=256m"])
        .gently_within(LONGEST)
        .output()
        .await?;
    git.run("pack-refs")
        .args(["--all"])
        .gently_within(LONGEST)
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
    let rests = failed.is_ok_and(|at| at.elapsed().is_ok_and(|since| since < REST));
    // Git can't roll up packs of which the remote promised the rest, and what is lent by a broken mirror goes with that.
    let can_be = mirror.join("HEAD").exists()
        && !rests
        && !gitdir::is_partial(&objects)
        && gitdir::lender(mirror).is_none();
    can_be && (packs(&objects) > most.packs || has_loose(&objects, most.loose))
}

fn packs(objects: &Path) -> usize {
    let packs = entries(&objects.join("pack")).map(|entry| entry.path());
    let packs = packs.filter(|path| path.extension().is_some_and(|extension| extension == "pack"));
    // What a fetch that was killed has marked to be kept is never rolled up.
    packs.filter(|path| !path.with_extension("keep").exists()).count()
}

/// Whether more than so many objects are in files of their own.
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
