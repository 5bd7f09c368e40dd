//! Files that are found by walking up from a folder, as `.ralph.toml` is.
//!
//! What they say is obeyed: commands to run, addresses to talk to. But anybody may put one where others work below (`/tmp`), so
//! whose a file is decides whether it is taken, as git does with repositories. A file that the user names isn't asked whose it is.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// Why a file that was found isn't trusted.
#[derive(Debug, thiserror::Error)]
pub enum UntrustedFile {
    /// Its owner is neither this user nor root.
    #[error(
        "{} is another user's (id {owner}), so it isn't obeyed: make it yours (chown) if you trust what it says, else remove it \
         or work in another folder",
        path.display()
    )]
    Foreign {
        /// The file, or the folder that holds it.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// The system refused something.
    #[error("failed to look whose {} is", path.display())]
    Io {
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// The nearest file of that name at or above `start`.
///
/// # Errors
/// When it is another user's: one further up might say the opposite, so none is taken.
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

/// Whether it is this user's, or root's, who may do all anyway.
///
/// # Errors
/// When it is another user's.
pub fn ours(path: &Path) -> Result<(), UntrustedFile> {
    let own = geteuid().as_raw();
    // Who made a link chose what stands behind it, and who owns that writes it.
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

    /// A folder of this test's own, which is empty.
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
    fn what_another_user_left_above_is_refused() {
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
        assert!(refused(&link), "the link is theirs");
        lchown(&link, Some(0), None).unwrap();
        chown(&file, Some(NOBODY), None).unwrap();
        assert!(refused(&link), "what stands behind it is theirs");
        fs::remove_file(&link).unwrap();
        assert!(refused(&file), "one further up is not taken instead");
        fs::remove_dir_all(root).unwrap();
    }
}
