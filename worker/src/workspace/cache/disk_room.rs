//! Frees disk space after a session filled the disk. Otherwise neither its work nor its report could be
//! stored, and other sessions would be blocked.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::disk::{bytes_on_disk, each_below, free_bytes};
use crate::workspace::folder::Workspace;
use crate::workspace::snapshot::modes;

impl Workspace {
    /// Removes files of an ended session until `reserve_bytes` of the disk are free, and returns the names of
    /// files removed from the tree. The session's home and temporary files go first, then the largest new
    /// files of its tree. Files of a shared folder stay.
    ///
    /// The remaining new files will be stored once more by git, so their size must be free as well. The
    /// session's processes must have ended.
    pub async fn make_room(&self, reserve_bytes: u64) -> Vec<PathBuf> {
        let tracked = self.tracked().await;
        let is_shared = self.is_shared();
        let (tree, others) = (self.path().to_owned(), [self.home(), self.tmp()]);
        let removed = tokio::task::spawn_blocking(move || {
            for folder in others {
                if let Err(error) = modes::remove_tree(&folder) {
                    tracing::warn!(%error, folder = %folder.display(), "failed to make room");
                }
            }
            if is_shared {
                return Vec::new();
            }
            let _ = modes::open_up(&tree);
            make_room(&tree, &tracked, |left_bytes| {
                let needed_bytes = reserve_bytes.saturating_add(left_bytes);
                free_bytes(&tree).is_none_or(|free| free >= needed_bytes)
            })
        });
        removed.await.unwrap_or_default()
    }

    /// Files of the start commit.
    async fn tracked(&self) -> HashSet<PathBuf> {
        let (Some(git), Some(start)) = (self.git_of(), self.start()) else {
            return HashSet::new();
        };
        let listed = git
            .run("ls-tree")
            .args(["-r", "-z", "--name-only", start])
            .output()
            .await;
        let names = listed.map(|listed| listed.stdout).unwrap_or_default();
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names
            .map(|name| self.path().join(OsStr::from_bytes(name)))
            .collect()
    }
}

/// Removes files of a folder, the largest first, until `has_room` returns true for the total bytes of the
/// remaining ones. Files in `keep` stay and don't count.
fn make_room(folder: &Path, keep: &HashSet<PathBuf>, has_room: impl Fn(u64) -> bool) -> Vec<PathBuf> {
    let mut files = Vec::new();
    each_below(folder, |path, metadata| {
        if metadata.is_file() {
            files.push((bytes_on_disk(metadata), path.to_owned()));
        }
    });
    files.retain(|(_, path)| !keep.contains(path));
    files.sort_by(|one, other| other.cmp(one));
    let mut left_bytes = files.iter().map(|(bytes, _)| bytes).sum();
    let mut removed = Vec::new();
    for (bytes, path) in files {
        if has_room(left_bytes) {
            break;
        }
        match fs::remove_file(&path) {
            Ok(()) => {
                left_bytes -= bytes;
                removed.push(path);
            }
            Err(error) => tracing::warn!(%error, file = %path.display(), "failed to make room"),
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_largest_new_files_are_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        for (name, kib) in [("small", 8), ("deep/large", 64), ("middle", 32), ("kept", 128)] {
            fs::write(at(name), vec![1; kib * 1024]).unwrap();
        }
        let keep = HashSet::from([at("kept")]);
        let removed = make_room(folder.path(), &keep, |_| !at("middle").exists());
        assert_eq!(removed, [at("deep/large"), at("middle")]);
        assert!(at("small").exists() && at("kept").exists());
    }

    #[test]
    fn has_room_is_asked_for_the_remaining_new_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, kib) in [("first", 64), ("second", 48), ("third", 16), ("kept", 128)] {
            fs::write(at(name), vec![1; kib * 1024]).unwrap();
        }
        let taken = |name: &str| fs::metadata(at(name)).unwrap().blocks() * 512;
        let (third, all) = (taken("third"), taken("first") + taken("second") + taken("third"));
        let keep = HashSet::from([at("kept")]);
        let asked = RefCell::new(Vec::new());
        let removed = make_room(folder.path(), &keep, |left_bytes| {
            asked.borrow_mut().push(left_bytes);
            left_bytes <= third
        });
        assert_eq!(removed, [at("first"), at("second")]);
        let asked = asked.into_inner();
        assert_eq!((asked[0], asked[2]), (all, third));
    }
}
