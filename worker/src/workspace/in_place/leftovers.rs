//! Files that sessions without a repository leave. No branch can hold them, so they stay on this machine for
//! some days, in a folder that the session's report names.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ralph_shared::wire::{CONTEXT_DIR, LeftoverFile, LeftoverFiles};

use crate::disk::each_below;
use crate::workspace::workspaces::Workspaces;
use crate::workspace::{record, snapshot::modes};

/// Largest size kept per session: small results, not build output or downloads. Bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Most sessions with kept files; the oldest are removed first.
const MAX_SESSIONS: usize = 1_000;
/// Most files named in a report.
const MAX_NAMED: usize = 20;
/// Most files from which the named ones are chosen.
const MAX_LISTED: usize = 10_000;

impl Workspaces {
    /// Deletes leftovers that have expired or exceed the limit of sessions.
    pub async fn delete_expired(&self) {
        self.delete_old(record::leftovers(self.data()), MAX_SESSIONS)
            .await;
    }

    /// Deletes expired entries of `folder`, and the oldest beyond `most`.
    pub async fn delete_old(&self, folder: PathBuf, most: usize) {
        let days = self.settings().keep_files_days;
        let deleted =
            tokio::task::spawn_blocking(move || delete_expired(&folder, days, most, SystemTime::now()));
        let _ = deleted.await;
    }
}

/// Moves a session's folder to where it is kept, if it has any files. The session's processes must have
/// ended. Safe to repeat.
pub(in crate::workspace) fn keep(
    data: &Path,
    dispatch: &str,
    tree: &Path,
    days: u32,
) -> Option<LeftoverFiles> {
    let place = record::leftovers(data).join(dispatch);
    let was_kept = place.is_dir();
    let folder: &Path = if was_kept { &place } else { tree };
    // Files that the agent made unreadable would be useless.
    let _ = modes::open_up(folder);
    let mut left = list_leftovers(folder)?;
    left.days = days;
    let stays = days > 0 && left.bytes <= MAX_BYTES;
    if stays && (was_kept || move_away(tree, &place)) {
        left.path = Some(place.to_string_lossy().into_owned());
    }
    Some(left)
}

/// The files of a folder, without the worker's own context files.
fn list_leftovers(folder: &Path) -> Option<LeftoverFiles> {
    let context = folder.join(CONTEXT_DIR);
    let mut left = LeftoverFiles::default();
    each_below(folder, |path, metadata| {
        if metadata.is_dir() || path.starts_with(&context) {
            return;
        }
        left.files += 1;
        left.bytes += metadata.len();
        if left.named.len() < MAX_LISTED {
            let name = path.strip_prefix(folder).unwrap_or(path);
            left.named.push(LeftoverFile {
                path: name.to_string_lossy().into_owned(),
                bytes: metadata.len(),
            });
        }
    });
    left.named.sort_by(|a, b| a.path.cmp(&b.path));
    left.named.truncate(MAX_NAMED);
    (left.files > 0).then_some(left)
}

fn move_away(tree: &Path, place: &Path) -> bool {
    let parent = place.parent().unwrap_or(place);
    let moved = record::make_private(parent)
        .map_err(|error| error.to_string())
        .and_then(|()| fs::rename(tree, place).map_err(|error| error.to_string()));
    match moved {
        Ok(()) => {
            // Its retention starts now.
            let _ = File::open(place).and_then(|folder| folder.set_modified(SystemTime::now()));
            true
        }
        Err(error) => {
            tracing::warn!(error, place = %place.display(), "failed to keep a session's files");
            false
        }
    }
}

fn delete_expired(kept: &Path, days: u32, most: usize, now: SystemTime) {
    let entries = fs::read_dir(kept).into_iter().flatten().flatten();
    let since = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let mut folders: Vec<(SystemTime, PathBuf)> = entries.filter_map(since).collect();
    folders.sort();
    let too_many = folders.len().saturating_sub(most);
    let longest = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
    for (n, (since, folder)) in folders.iter().enumerate() {
        let is_over = now.duration_since(*since).is_ok_and(|age| age >= longest);
        if (is_over || n < too_many)
            && let Err(error) = modes::remove_tree(folder)
        {
            tracing::warn!(%error, folder = %folder.display(), "failed to delete a session's kept files");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_reported_and_kept_for_their_days() {
        let data = tempfile::tempdir().unwrap();
        let tree = data.path().join("tree");
        fs::create_dir_all(tree.join("out")).unwrap();
        fs::create_dir_all(tree.join(CONTEXT_DIR)).unwrap();
        fs::write(tree.join(CONTEXT_DIR).join("spec.md"), "long").unwrap();
        assert_eq!(
            keep(data.path(), "d-1", &tree, 7),
            None,
            "nothing of the session's own"
        );
        fs::write(tree.join("out/b.txt"), "bb").unwrap();
        fs::write(tree.join("a.txt"), "a").unwrap();
        let left = keep(data.path(), "d-1", &tree, 7).unwrap();
        let place = data.path().join("kept/d-1");
        assert_eq!(left.path.as_deref(), place.to_str());
        assert_eq!((left.files, left.bytes, left.days), (2, 3, 7));
        let named: Vec<_> = left.named.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(named, ["a.txt", "out/b.txt"]);
        assert_eq!(fs::read_to_string(place.join("out/b.txt")).unwrap(), "bb");
        assert_eq!(
            keep(data.path(), "d-1", &tree, 7),
            Some(left),
            "the same report again"
        );

        let day = Duration::from_secs(24 * 60 * 60);
        delete_expired(
            &record::leftovers(data.path()),
            7,
            MAX_SESSIONS,
            SystemTime::now() + 6 * day,
        );
        assert!(place.exists());
        delete_expired(
            &record::leftovers(data.path()),
            7,
            MAX_SESSIONS,
            SystemTime::now() + 7 * day,
        );
        assert!(!place.exists());
    }

    #[test]
    fn files_that_are_not_kept_are_still_reported() {
        let data = tempfile::tempdir().unwrap();
        let tree = data.path().join("tree");
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("a.txt"), "a").unwrap();
        let left = keep(data.path(), "d-1", &tree, 0).unwrap();
        assert_eq!((left.path, left.files), (None, 1));
        let large = File::create(tree.join("large")).unwrap();
        large.set_len(MAX_BYTES).unwrap();
        let left = keep(data.path(), "d-1", &tree, 7).unwrap();
        assert_eq!((left.path, left.files), (None, 2));
        assert!(tree.exists());
    }
}
