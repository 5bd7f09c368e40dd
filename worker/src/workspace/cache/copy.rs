//! Private copies of folders: nothing in the copy is shared with the original, on file systems that can do it not even
//! the time to copy it.

use std::fs::{self, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Copies plain files, folders and symbolic links (as links) from `from` into the new folder `to`, with times and
/// permissions, without set-user-ID bits; what else there is is left out. Bytes of the files that were copied.
///
/// # Errors
/// When something can't be read or written, or `to` is there.
pub(in crate::workspace) fn copy_tree(from: &Path, to: &Path) -> io::Result<u64> {
    fs::create_dir(to)?;
    let mut bytes = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            bytes += copy_tree(&from, &to)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_file() {
            // Shares blocks, to be copied when they are written, where the file system can.
            bytes += fs::copy(&from, &to)?;
            settle(&from, &to)?;
        }
    }
    settle(from, to)?;
    Ok(bytes)
}

fn settle(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = fs::metadata(from)?;
    let times = FileTimes::new().set_modified(metadata.modified()?);
    let folder = fs::File::open(to)?;
    folder.set_times(times)?;
    folder.set_permissions(Permissions::from_mode(metadata.permissions().mode() & 0o777))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_shares_nothing_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("bin")).unwrap();
        fs::write(from.join("bin/tool"), "tool").unwrap();
        fs::set_permissions(from.join("bin/tool"), Permissions::from_mode(0o4755)).unwrap();
        symlink("/etc/passwd", from.join("link")).unwrap();
        fs::hard_link(from.join("bin/tool"), from.join("same")).unwrap();
        assert_eq!(copy_tree(&from, &to).unwrap(), 8);
        fs::write(to.join("same"), "else").unwrap();
        assert_eq!(fs::read_to_string(from.join("bin/tool")).unwrap(), "tool");
        assert_eq!(fs::read_to_string(to.join("bin/tool")).unwrap(), "tool");
        assert_eq!(
            fs::metadata(to.join("bin/tool")).unwrap().permissions().mode() & 0o7777,
            0o755
        );
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/etc/passwd"));
        assert!(copy_tree(&from, &to).is_err());
    }
}
