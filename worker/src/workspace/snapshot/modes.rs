//! Repairs modes that an agent changed so that this worker can't access its files, and deletes such folders.
//! The session's processes must have ended, so nobody changes the files meanwhile.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, PermissionsExt as _};
use ralph_shared::at_length::at_length;
use uuid::Uuid;

/// Modes that the owner needs on a folder and on a file.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o400;

/// Most nested folders that are entered. Deeper folders are first moved up, so that neither a path nor a
/// stack grows with an agent's folders.
const DEEPEST: usize = 12;

/// Deletes a folder, whatever modes and depth an agent gave to its contents. A missing folder is fine.
pub(in crate::workspace) fn remove_tree(folder: &Path) -> io::Result<()> {
    at_length(|| remove_whole(folder))
}

fn remove_whole(folder: &Path) -> io::Result<()> {
    match fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return unless_gone(fs::remove_file(folder)),
        Err(error) => return unless_gone(Err(error)),
    }
    add(folder, FOLDER_MODE)?;
    // Paths below this handle can't leave it, whatever links somebody creates meanwhile.
    empty(&Dir::open_ambient_dir(folder, ambient_authority())?)?;
    unless_gone(fs::remove_dir(folder))
}

enum Step {
    /// Deletes the contents of a folder at this depth.
    Enter(PathBuf, usize),
    /// Deletes a folder that is now empty.
    Leave(PathBuf),
}

fn empty(top: &Dir) -> io::Result<()> {
    let mut steps = vec![Step::Enter(PathBuf::from("."), 0)];
    while let Some(step) = steps.pop() {
        let (folder, depth) = match step {
            Step::Leave(folder) => {
                unless_gone(top.remove_dir(&folder))?;
                continue;
            }
            Step::Enter(folder, depth) => (folder, depth),
        };
        if depth > 0 {
            unless_gone(add_below(top, &folder))?;
            steps.push(Step::Leave(folder.clone()));
        }
        let entries = match top.read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            // Some file systems don't report the kind with the name.
            let is_known = kind.is_dir() || kind.is_file() || kind.is_symlink();
            let is_dir = kind.is_dir() || !is_known && top.symlink_metadata(&path)?.is_dir();
            if !is_dir {
                unless_gone(top.remove_file(&path))?;
            } else if depth + 1 < DEEPEST {
                steps.push(Step::Enter(path, depth + 1));
            } else {
                let up = PathBuf::from(Uuid::new_v4().simple().to_string());
                add_below(top, &path)?;
                top.rename(&path, top, &up)?;
                steps.push(Step::Enter(up, 1));
            }
        }
    }
    Ok(())
}

/// Gives the owner the rights to empty and move a folder below `top`.
pub(in crate::workspace) fn add_below(top: &Dir, folder: &Path) -> io::Result<()> {
    let mode = top.symlink_metadata(folder)?.permissions().mode();
    if mode & FOLDER_MODE == FOLDER_MODE {
        return Ok(());
    }
    let wanted = Permissions::from_mode(mode | FOLDER_MODE);
    top.set_permissions(folder, cap_std::fs::Permissions::from_std(wanted))
}

fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Gives the owner the rights to empty a folder.
pub(in crate::workspace) fn open_folder(folder: &Path) -> io::Result<()> {
    add(folder, FOLDER_MODE)
}

/// Gives the owner the rights to read and remove a folder and everything in it. Links stay unchanged.
pub(in crate::workspace) fn open_up(folder: &Path) -> io::Result<()> {
    at_length(|| open_whole(folder))
}

fn open_whole(folder: &Path) -> io::Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        add(&folder, FOLDER_MODE)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                add(&entry.path(), FILE_MODE)?;
            }
        }
    }
    Ok(())
}

/// Files that git reads in each folder of a work tree.
const READ_BY_GIT: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

/// Removes pipes, sockets and devices in place of files that git reads per folder: git would block on them.
/// Returns how many.
pub(in crate::workspace) fn remove_blocking_rules(folder: &Path) -> io::Result<usize> {
    at_length(|| remove_rules(folder))
}

fn remove_rules(folder: &Path) -> io::Result<usize> {
    let mut removed = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // Unreadable folders get their modes changed later.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
                continue;
            }
            let is_rule = READ_BY_GIT.iter().any(|name| entry.file_name() == *name);
            if is_rule && !kind.is_file() && !kind.is_symlink() {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

fn add(path: &Path, wanted: u32) -> io::Result<()> {
    let mode = fs::symlink_metadata(path)?.permissions().mode();
    if mode & wanted == wanted {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode | wanted))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Creates nested folders, deeper than the longest path.
    fn deep(folder: &Path, levels: usize) {
        let mut dir = Dir::open_ambient_dir(folder, ambient_authority()).unwrap();
        for _ in 0..levels {
            dir.create_dir("folder").unwrap();
            dir.write("file", "text").unwrap();
            dir = dir.open_dir("folder").unwrap();
        }
    }

    #[test]
    fn a_folder_of_any_depth_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let kept = home.path().join("kept");
        fs::write(&kept, "kept").unwrap();
        let folder = home.path().join("a");
        fs::create_dir_all(folder.join("b")).unwrap();
        deep(&folder, 3_000);
        deep(&folder.join("b"), DEEPEST);
        std::os::unix::fs::symlink(&kept, folder.join("b/link")).unwrap();
        std::os::unix::fs::symlink(home.path(), folder.join("up")).unwrap();
        fs::set_permissions(folder.join("b"), Permissions::from_mode(0o000)).unwrap();
        remove_tree(&folder).unwrap();
        assert!(!folder.exists());
        assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
        remove_tree(&folder).unwrap();
        std::os::unix::fs::symlink(&kept, &folder).unwrap();
        remove_tree(&folder).unwrap();
        assert!(kept.exists() && fs::symlink_metadata(&folder).is_err());
    }
}
