//! Paths in trees that agents wrote.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Resolves `.` and `..` by name, without following links.
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

/// The folder `path` below `tree`; `None` when it is missing or a symbolic link is on the way.
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
