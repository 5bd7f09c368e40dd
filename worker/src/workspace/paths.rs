//! Paths in trees that agents wrote.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// `..` taken literally.
pub(in crate::workspace) fn lexical(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::CurDir => {}
            part => whole.push(part),
        }
    }
    whole
}

/// The folder `path` below `tree`, if no symbolic link of an agent's leads elsewhere.
pub(in crate::workspace) fn inside(tree: &Path, path: &Path) -> Option<PathBuf> {
    let mut folder = tree.to_owned();
    for part in path.components() {
        let Component::Normal(part) = part else {
            return None;
        };
        folder.push(part);
        if !fs::symlink_metadata(&folder).ok()?.is_dir() {
            return None;
        }
    }
    Some(folder)
}
