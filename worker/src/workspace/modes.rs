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

fn add(path: &Path, wanted: u32) -> io::Result<()> {
    let mode = fs::symlink_metadata(path)?.permissions().mode();
    if mode & wanted == wanted {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode | wanted))
}
