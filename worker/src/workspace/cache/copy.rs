//! Private copies of folders: a copy shares nothing with the original, and takes almost no time on file
//! systems that can share blocks.

use std::fs::{self, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Copies plain files, folders and symbolic links (as links) from `from` into the new folder `to`. Keeps
/// times and permissions without set-user-ID bits, and skips other kinds of files. Returns the bytes of the
/// copied files.
///
/// # Errors
/// When a file can't be read or written, or `to` exists.
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
            // Shares blocks until they are written, where the file system supports that.
            bytes += fs::copy(&from, &to)?;
            copy_metadata(&from, &to)?;
        }
    }
    copy_metadata(from, to)?;
    Ok(bytes)
}

fn copy_metadata(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = fs::metadata(from)?;
    let times = FileTimes::new().set_modified(metadata.modified()?);
    let copy = fs::File::open(to)?;
    copy.set_times(times)?;
    copy.set_permissions(Permissions::from_mode(metadata.permissions().mode() & 0o777))
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
