//! Paths in the repository that commands are called in. It may be anybody's, and what it has in the place of a file or a folder of ours
//! may be a link to somewhere else: to what it wants read and sent, or overwritten.

use std::path::{Path, PathBuf};

/// The first part of a relative path that is a symbolic link. An absolute path is the user's own choice.
pub fn first_symlink(path: &Path) -> Option<PathBuf> {
    if path.is_absolute() {
        return None;
    }
    let mut parts: Vec<&Path> = path.ancestors().filter(|part| *part != Path::new("")).collect();
    parts.reverse();
    parts
        .into_iter()
        .find(|part| part.is_symlink())
        .map(Path::to_owned)
}
