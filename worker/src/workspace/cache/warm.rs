//! Build output of landed work, for later checkouts: a compiler finds its `target` there and builds only the
//! changes (`[workspace] warm`).
//!
//! ```text
//! caches/REPOSITORY/{base,FEATURE-BRANCH}/warm-TREE/{0,1,…}   folders of a checkout of TREE that passed the gate
//!                                                  /index.json
//! ```
//!
//! A checkout takes a copy, and only for the tree of a commit in its own history, so the build output of
//! unlanded work reaches nobody. Compilers compare modification times, so unchanged files get the times that
//! they had when the output was built.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use ralph_shared::wire::GitOrder;
use serde::{Deserialize, Serialize};

use super::{Origin, Shelf, copy, files};
use crate::disk::used_bytes;
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::Git;
use crate::workspace::paths::inside;
use crate::workspace::settings::Settings;
use crate::workspace::{record, snapshot::modes};

const PREFIX: &str = "warm-";
const INDEX: &str = "index.json";
/// Entries kept per folder: work checked ahead of its turn may land later than other work.
const ENTRIES: usize = 3;
/// Limit of searched commits in a history.
const HISTORY: &str = "--max-count=200";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    /// Paths of the folders `0`, `1`, … in the checkout.
    folders: Vec<PathBuf>,
    files: Vec<TrackedFile>,
}

/// A file of the commit that the gate did not change.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TrackedFile {
    path: PathBuf,
    /// Mode and object id, as in git's index.
    blob: String,
    modified_ns: u64,
}

/// Cached sizes of entries, which don't change.
#[derive(Debug, Default)]
pub(in crate::workspace) struct Sizes(Mutex<HashMap<PathBuf, u64>>);

impl Sizes {
    /// Total size of all entries; only new ones are measured. Bytes.
    pub(in crate::workspace) fn measure(&self, data: &Path) -> u64 {
        let is_whole = |path: &PathBuf| path.extension().is_none() && is_entry(path);
        let mut before = self.0.lock();
        let size = |path: PathBuf| {
            let bytes = before.get(&path).copied();
            (bytes.unwrap_or_else(|| used_bytes(&path)), path)
        };
        let now = files::caches(data).filter(is_whole).map(size);
        let now: HashMap<PathBuf, u64> = now.map(|(bytes, path)| (path, bytes)).collect();
        *before = now;
        before.values().sum()
    }
}

/// Keeps the build output of the checkout in which the gate passed on `commit`. Moves its folders away.
pub(in crate::workspace) async fn keep(
    git: &Git,
    shelf: &Shelf,
    (origin, commit): (Origin, &str),
    settings: &Settings,
) {
    let place = match origin {
        Origin::Base => &shelf.base,
        Origin::Branch | Origin::Attempt => &shelf.branch,
    };
    if let Err(error) = try_keep(git, place, commit, settings).await {
        tracing::warn!(%error, "failed to keep build output for later checkouts");
    }
}

async fn try_keep(git: &Git, shelf: &Path, commit: &str, settings: &Settings) -> Result<(), WorkspaceError> {
    let Some(tree) = git.tree().filter(|_| !settings.warm.folders.is_empty()) else {
        return Ok(());
    };
    let is_cached = |name: &Path| settings.caches.iter().any(|rule| rule.path == name);
    let is_warm_name = |name: &OsStr| settings.warm.folders.iter().any(|folder| name == folder.as_str());
    let folders: Vec<PathBuf> = ignored_folders(git)
        .await?
        .into_iter()
        .filter(|path| {
            path.file_name().is_some_and(is_warm_name) && !is_cached(path) && inside(tree, path).is_some()
        })
        .collect();
    let size_bytes: u64 = folders.iter().map(|folder| used_bytes(&tree.join(folder))).sum();
    if folders.is_empty() || size_bytes > settings.warm.most_bytes {
        return Ok(());
    }
    let changed = changed_files(git).await?;
    let files = tracked(git).await?.into_iter();
    let files = files.filter(|(path, _)| !changed.contains(path));
    let files = files.filter_map(|(path, blob)| {
        let metadata = fs::symlink_metadata(tree.join(&path))
            .ok()
            .filter(fs::Metadata::is_file)?;
        let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(TrackedFile {
            path,
            blob,
            modified_ns: u64::try_from(since.as_nanos()).ok()?,
        })
    });
    let index = Index {
        folders,
        files: files.collect(),
    };
    let built = format!("{commit}^{{tree}}");
    let built = git
        .run("rev-parse")
        .args(["--verify", &built])
        .output()
        .await?
        .word();
    let place = shelf.join(format!("{PREFIX}{built}"));
    record::make_private(shelf)?;
    move_into(tree, &index, &place).map_err(WorkspaceError::io("keep build output in", &place))?;
    for old in entries(shelf).into_iter().skip(ENTRIES) {
        files::delete(&old)?;
    }
    Ok(())
}

fn move_into(tree: &Path, index: &Index, place: &Path) -> io::Result<()> {
    if place.is_dir() {
        return Ok(());
    }
    let new = place.with_extension(uuid::Uuid::new_v4().simple().to_string());
    let moved = fs::create_dir(&new).and_then(|()| {
        for (number, folder) in index.folders.iter().enumerate() {
            fs::rename(tree.join(folder), new.join(number.to_string()))?;
        }
        fs::write(new.join(INDEX), serde_json::to_vec(index)?)?;
        fs::rename(&new, place)
    });
    if moved.is_err() {
        let _ = modes::remove_tree(&new);
    }
    match place.is_dir() {
        // Another gate on the same tree was faster.
        true => Ok(()),
        false => moved,
    }
}

/// Copies build output into a checkout of `start`: that of the latest commit in its history that has any.
pub(in crate::workspace) async fn restore(
    git: &Git,
    shelf: &Shelf,
    (order, start): (&GitOrder, &str),
    settings: &Settings,
) {
    match try_restore(git, shelf, (order, start), settings).await {
        Ok(None) => {}
        Ok(Some(entry)) => tracing::debug!(entry = %entry.display(), "copied build output into the checkout"),
        Err(error) => {
            tracing::warn!(%error, "the checkout starts without build output: it could not be copied")
        }
    }
}

async fn try_restore(
    git: &Git,
    shelf: &Shelf,
    (order, start): (&GitOrder, &str),
    settings: &Settings,
) -> Result<Option<PathBuf>, WorkspaceError> {
    let is_wanted = !order.cold && !settings.warm.folders.is_empty();
    let Some(tree) = git.tree().filter(|_| is_wanted) else {
        return Ok(None);
    };
    let Some(entry) = find(git, shelf, start).await? else {
        return Ok(None);
    };
    let failed = || WorkspaceError::io("read build output in", &entry);
    let index = fs::read(entry.join(INDEX)).map_err(failed())?;
    let index: Index = serde_json::from_slice(&index).map_err(|error| failed()(error.into()))?;
    let ignored = still_ignored(git, &index.folders).await?;
    let (from, to) = (entry.clone(), tree.to_owned());
    let wanted = index.folders.iter().cloned().enumerate();
    let wanted: Vec<(usize, PathBuf)> = wanted.filter(|(_, folder)| ignored.contains(folder)).collect();
    let copied = tokio::task::spawn_blocking(move || copy_folders(&from, &to, &wanted)).await;
    copied
        .unwrap_or_else(|stopped| Err(stopped.into()))
        .map_err(failed())?;
    let now: BTreeMap<PathBuf, String> = tracked(git).await?.into_iter().collect();
    for file in index
        .files
        .iter()
        .filter(|file| now.get(&file.path) == Some(&file.blob))
    {
        restore_time(tree, file).map_err(WorkspaceError::io("set the time of", &file.path))?;
    }
    Ok(Some(entry))
}

/// The entry for the latest tree in the history of `start`.
async fn find(git: &Git, shelf: &Shelf, start: &str) -> Result<Option<PathBuf>, GitError> {
    let kept: Vec<PathBuf> = [&shelf.branch, &shelf.base]
        .into_iter()
        .flat_map(|place| entries(place))
        .collect();
    if kept.is_empty() {
        return Ok(None);
    }
    let listed = git
        .run("log")
        .args(["--format=%T", HISTORY, start, "--"])
        .output()
        .await?
        .text();
    let is_of = |entry: &&PathBuf, tree: &str| {
        let name = entry.file_name().and_then(OsStr::to_str);
        name.and_then(|name| name.strip_prefix(PREFIX)) == Some(tree)
    };
    Ok(listed
        .lines()
        .find_map(|tree| kept.iter().find(|entry| is_of(entry, tree)).cloned()))
}

pub(super) fn is_entry(cache: &Path) -> bool {
    let name = cache.file_name();
    name.is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()))
}

/// Complete entries of a folder, the latest first.
fn entries(place: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(SystemTime, PathBuf)> = files::folders_in(place)
        .filter(|path| path.extension().is_none() && is_entry(path))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

fn copy_folders(entry: &Path, tree: &Path, folders: &[(usize, PathBuf)]) -> io::Result<()> {
    for (number, folder) in folders {
        let Some(parent) = inside(tree, folder.parent().unwrap_or(Path::new(""))) else {
            continue;
        };
        let to = parent.join(folder.file_name().unwrap_or_default());
        if fs::symlink_metadata(&to).is_ok() {
            continue;
        }
        if let Err(error) = copy::copy_tree(&entry.join(number.to_string()), &to) {
            modes::remove_tree(&to)?;
            return Err(error);
        }
    }
    Ok(())
}

fn restore_time(tree: &Path, file: &TrackedFile) -> io::Result<()> {
    let path = tree.join(&file.path);
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_file() => {
            File::open(path)?.set_modified(UNIX_EPOCH + Duration::from_nanos(file.modified_ns))
        }
        _ => Ok(()),
    }
}

/// Ignored folders of the checkout, without nested ones.
async fn ignored_folders(git: &Git) -> Result<Vec<PathBuf>, GitError> {
    let list = ["--others", "--ignored", "--exclude-standard", "--directory", "-z"];
    let listed = git.run("ls-files").args(list).output().await?;
    let folders = parts(&listed.stdout).filter_map(|path| path.strip_suffix(b"/"));
    Ok(folders.map(path_of).collect())
}

/// The folders that this checkout ignores too: git would take others for work.
async fn still_ignored(git: &Git, folders: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
    let asked: Vec<u8> = folders
        .iter()
        .flat_map(|folder| [folder.as_os_str().as_bytes(), b"/\0"].concat())
        .collect();
    let answer = git.run("check-ignore").args(["-z", "--stdin"]).input(asked);
    let answer = answer.accept(&[0, 1]).output().await?;
    let folders = parts(&answer.stdout).map(|path| path.strip_suffix(b"/").unwrap_or(path));
    Ok(folders.map(path_of).collect())
}

/// Tracked paths with mode and object id.
async fn tracked(git: &Git) -> Result<Vec<(PathBuf, String)>, GitError> {
    let listed = git.run("ls-files").args(["--stage", "-z"]).output().await?;
    let entry = |line: &[u8]| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let blob = String::from_utf8_lossy(&line[..tab]).into_owned();
        Some((path_of(&line[tab + 1..]), blob))
    };
    Ok(parts(&listed.stdout).filter_map(entry).collect())
}

async fn changed_files(git: &Git) -> Result<Vec<PathBuf>, GitError> {
    let list = ["--modified", "--deleted", "-z"];
    let listed = git.run("ls-files").args(list).output().await?;
    Ok(parts(&listed.stdout).map(path_of).collect())
}

fn parts(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
