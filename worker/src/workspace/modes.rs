//! Folders and files whose modes an agent changed so that their owner, this worker, can't get at them. Nothing of the
//! session runs any more when this is done, so nobody changes what is looked at.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// What an owner needs of a folder, and of a file.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o400;

/// Deletes a folder whatever modes an agent gave to those in it. A folder that isn't there is fine.
pub(super) fn remove_tree(folder: &Path) -> io::Result<()> {
    let removed = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    removed(fs::remove_dir_all(folder)).or_else(|_| {
        open_up(folder)?;
        removed(fs::remove_dir_all(folder))
    })
}

/// Gives the owner of a folder, and of all that is in it, what they need to read and remove it. Links are left alone.
pub(super) fn open_up(folder: &Path) -> io::Result<()> {
    add(folder, FOLDER_MODE)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            open_up(&entry.path())?;
        } else if kind.is_file() {
            add(&entry.path(), FILE_MODE)?;
        }
    }
    Ok(())
}

/// Files that git opens in each folder of a work tree.
const READ_BY_GIT: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

/// Removes pipes, sockets and devices that stand where git reads what holds for a folder: it would wait for ever. Returns how many.
pub(super) fn remove_odd_rules(folder: &Path) -> io::Result<usize> {
    let mut removed = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // What can't be read is opened up later.
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
