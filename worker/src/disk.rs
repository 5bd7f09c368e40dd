//! Free space of disks and usage of folders.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

/// Unit of a file's block count. Bytes.
const BLOCK_BYTES: u64 = 512;

/// Suffix of the path of an open file that was deleted.
const DELETED: &[u8] = b" (deleted)";

/// Free space on a folder's disk for users other than root. `None` if unknown. Bytes.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(disk.blocks_available() * disk.fragment_size())
}

/// Disk usage of a folder, as far as it can be read. Bytes.
pub fn used_bytes(folder: &Path) -> u64 {
    used_since(folder, i64::MIN)
}

/// Disk usage of files written, moved or created since a time (seconds since 1970). Bytes.
pub fn used_since(folder: &Path, since: i64) -> u64 {
    let mut held = 0;
    each_below(folder, |_, metadata| {
        if metadata.ctime() >= since {
            held += bytes_on_disk(metadata);
        }
    });
    held
}

/// Visits all readable entries below a folder. Uses one descriptor, however deep the folders are.
pub fn each_below(folder: &Path, mut look: impl FnMut(&Path, &fs::Metadata)) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let path = entry.path();
            look(&path, &metadata);
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
}

/// Disk usage of deleted files below `folders` that a process of this user still has open. Bytes.
pub fn deleted_open_bytes(folders: &[PathBuf]) -> u64 {
    let mut files = HashMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let open = fs::read_dir(process.path().join("fd"));
        for file in open.into_iter().flatten().flatten() {
            let Ok(path) = fs::read_link(file.path()) else {
                continue;
            };
            let is_deleted = path.as_os_str().as_bytes().ends_with(DELETED);
            if is_deleted
                && folders.iter().any(|folder| path.starts_with(folder))
                && let Ok(metadata) = fs::metadata(file.path())
            {
                files.insert((metadata.dev(), metadata.ino()), bytes_on_disk(&metadata));
            }
        }
    }
    files.values().sum()
}

/// Disk usage of one file. Bytes.
pub fn bytes_on_disk(file: &fs::Metadata) -> u64 {
    file.blocks() * BLOCK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_includes_nested_folders_but_not_linked_ones() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        let before = used_bytes(folder.path());
        fs::write(below.join("c"), vec![1; 1024 * 1024]).unwrap();
        std::os::unix::fs::symlink("/", below.join("d")).unwrap();
        assert!(used_bytes(folder.path()) - before >= 1024 * 1024);
        assert!(free_bytes(folder.path()).unwrap() > 0);
        assert_eq!(used_since(folder.path(), i64::MAX), 0);
    }

    #[test]
    fn deleted_files_that_are_still_open_count_once() {
        use std::io::Write as _;

        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().canonicalize().unwrap()];
        let path = folder.path().join("gone");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&vec![1; 1024 * 1024]).unwrap();
        file.sync_all().unwrap();
        assert_eq!(deleted_open_bytes(&folders), 0, "it is not deleted yet");
        fs::remove_file(&path).unwrap();
        let again = file.try_clone().unwrap();
        let held = deleted_open_bytes(&folders);
        assert!((1024 * 1024..2 * 1024 * 1024).contains(&held), "{held}");
        drop((file, again));
        assert_eq!(deleted_open_bytes(&folders), 0);
    }
}
