//! Finds files by walking up from a folder, such as `.ralph.toml`.
//!
//! Their content is obeyed: commands to run, addresses to connect to. But anybody may put such a file above a
//! folder where others work (`/tmp`). So only a trusted owner's file is used, as git does with repositories.
//! The owner of a file that the user names does not matter.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// A found file that is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum UntrustedFile {
    /// Its owner is neither this user nor root.
    #[error(
        "{} is another user's (id {owner}), so it isn't used: make it yours (chown) if you trust its content, else remove it \
         or work in another folder",
        path.display()
    )]
    Foreign {
        /// The file, or the folder that holds it.
        path: PathBuf,
        /// The owner's id.
        owner: u32,
    },
    #[error("failed to find the owner of {}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The nearest file with this name at or above `start`.
///
/// # Errors
/// If it is another user's: a file further up might say the opposite, so none is used.
pub fn nearest(start: &Path, name: &str) -> Result<Option<PathBuf>, UntrustedFile> {
    let found = start
        .ancestors()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    if let Some(path) = &found {
        ours(path)?;
    }
    Ok(found)
}

/// Checks that the file is this user's, or root's, who may do everything anyway.
///
/// # Errors
/// If it is another user's.
pub fn ours(path: &Path) -> Result<(), UntrustedFile> {
    let own = geteuid().as_raw();
    // The owner of a link chose its target, and the owner of the target writes it.
    for metadata in [fs::symlink_metadata(path), fs::metadata(path)] {
        let owner = metadata
            .map_err(|source| UntrustedFile::Io {
                path: path.to_owned(),
                source,
            })?
            .uid();
        if !is_trusted(owner, own) {
            return Err(UntrustedFile::Foreign {
                path: path.to_owned(),
                owner,
            });
        }
    }
    Ok(())
}

fn is_trusted(owner: u32, own: u32) -> bool {
    owner == own || owner == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, lchown, symlink};

    use super::*;

    const NOBODY: u32 = 65534;

    #[test]
    fn this_user_and_root_are_trusted() {
        assert!(is_trusted(1000, 1000) && is_trusted(0, 1000) && is_trusted(0, 0));
        assert!(!is_trusted(1001, 1000) && !is_trusted(1000, 0));
    }

    /// An empty folder for one test.
    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ralph-nearest-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("a/b")).unwrap();
        path
    }

    #[test]
    fn the_nearest_file_above_is_found() {
        let root = folder("found");
        let below = root.join("a/b");
        assert_eq!(nearest(&below, "its.toml").unwrap(), None);
        for at in ["its.toml", "a/its.toml"] {
            fs::write(root.join(at), "").unwrap();
            assert_eq!(nearest(&below, "its.toml").unwrap(), Some(root.join(at)));
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        if !geteuid().is_root() {
            return; // Nobody else can give a file away.
        }
        let root = folder("foreign");
        let (file, link) = (root.join("a/its.toml"), root.join("a/b/its.toml"));
        fs::write(&file, "").unwrap();
        fs::write(root.join("its.toml"), "").unwrap();
        symlink(&file, &link).unwrap();
        let refused = |named: &Path| match nearest(&root.join("a/b"), "its.toml") {
            Err(UntrustedFile::Foreign { path, owner }) => path == named && owner == NOBODY,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            nearest(&root.join("a/b"), "its.toml").unwrap().as_ref(),
            Some(&link)
        );
        lchown(&link, Some(NOBODY), None).unwrap();
        assert!(refused(&link), "the link is another user's");
        lchown(&link, Some(0), None).unwrap();
        chown(&file, Some(NOBODY), None).unwrap();
        assert!(refused(&link), "its target is another user's");
        fs::remove_file(&link).unwrap();
        assert!(refused(&file), "a file further up is not used instead");
        fs::remove_dir_all(root).unwrap();
    }
}
