//! Paths in the current repository. Anyone may have written the repository, and it may replace a file or
//! folder of ours with a link: to a file that it wants us to send, or to overwrite.

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
