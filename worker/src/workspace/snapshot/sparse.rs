//! Files that an agent took off the disk without deleting them: `git sparse-checkout` leaves only some folders there, and marks all
//! else in its index. They are part of its work as they were at the start.
//!
//! The marks are read from its index as data, by the worker's own git and configuration.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ralph_shared::at_length::at_length;

use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::Git;
use crate::workspace::snapshot::force_added;

/// Says in a list that a file was taken off the disk.
const MARK: &[u8] = b"S ";

/// Brings those that the worker's index doesn't name any more, and `start` does, back into it.
///
/// # Errors
/// When git fails; what can't be read of an agent's index is left out.
pub(in crate::workspace) async fn restore(git: &Git, start: &str) -> Result<(), GitError> {
    let (Some(tree), Some(index)) = (git.tree(), force_added::index_of(git)) else {
        return Ok(());
    };
    let options = ["--cached", "-r", "-z", "--raw", "--no-renames", "--diff-filter=D"];
    let gone = git.run("diff-index").args(options).args([start]).output().await?;
    gone.must_be_whole("diff-index")?;
    let gone = entries(&gone.stdout);
    if gone.is_empty() {
        return Ok(());
    }
    let listed = match listed(git, index).await {
        Ok(listed) => listed,
        Err(error) => {
            tracing::info!(%error, "an agent's index can't be read");
            return Ok(());
        }
    };
    let input: Vec<u8> = at_length(|| {
        let marks = Marks::read(&listed);
        let kept = gone
            .iter()
            .filter(|(_, path)| marks.has(path) && is_off(tree, path));
        kept.flat_map(|(ids, path)| [ids, &b"\t"[..], path, b"\0"].concat())
            .collect()
    });
    if !input.is_empty() {
        let restored = git.run("update-index").args(["-z", "--index-info"]);
        restored.input(input).output().await?;
    }
    Ok(())
}

/// Settings with which git leaves folders in an index as they are.
const AS_IT_IS: &[(&str, &str)] = &[
    ("core.sparseCheckout", "true"),
    ("core.sparseCheckoutCone", "true"),
    ("index.sparse", "true"),
    ("sparse.expectFilesOutsideOfPatterns", "true"),
];
/// What a sparse checkout of no folder has in it; without that file git doesn't.
const PATTERNS: &str = "/*\n!/*/\n";

/// What an agent's index names, with a mark before each. An index may name whole folders; what is in them stands in the agent's
/// commits, so it may not be known here. Then the folders are named.
async fn listed(git: &Git, index: PathBuf) -> Result<Vec<u8>, WorkspaceError> {
    let list = || {
        git.run("ls-files")
            .args(["-z", "-t", "--cached", "--sparse"])
            .variable("GIT_INDEX_FILE", &index)
            // What isn't there was made by the agent.
            .variable("GIT_NO_LAZY_FETCH", "1")
    };
    let listed = list().output().await?;
    if !String::from_utf8_lossy(&listed.stderr).contains("error: ") {
        return Ok(listed.stdout);
    }
    let patterns = git.dir().join("info/sparse-checkout");
    fs::write(&patterns, PATTERNS).map_err(WorkspaceError::io("write", &patterns))?;
    let settings = AS_IT_IS.iter();
    let settings = settings.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Ok(list().configured(settings.collect()).output().await?.stdout)
}

/// Reads `diff-index -z --raw`: what each file was (mode and object id, with a space between), and its path.
fn entries(raw: &[u8]) -> Vec<(Vec<u8>, &[u8])> {
    let mut fields = raw.split(|byte| *byte == 0);
    let mut found = Vec::new();
    while let (Some(entry), Some(path)) = (fields.next(), fields.next()) {
        let parts: Vec<&[u8]> = entry.split(|byte| *byte == b' ').collect();
        if let [mode, _, id, ..] = parts[..] {
            let mode = mode.strip_prefix(b":").unwrap_or(mode);
            found.push(([mode, b" ", id].concat(), path));
        }
    }
    found
}

/// What an index marks: files, and whole folders, which end with a slash.
struct Marks<'a>(HashSet<&'a [u8]>);

impl<'a> Marks<'a> {
    /// Reads `ls-files -z -t --sparse`.
    fn read(listed: &'a [u8]) -> Self {
        let lines = listed.split(|byte| *byte == 0);
        Self(lines.filter_map(|line| line.strip_prefix(MARK)).collect())
    }

    fn has(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut folders = ends.map(|(end, _)| &path[..=end]);
        self.0.contains(path) || folders.any(|folder| self.0.contains(folder))
    }
}

/// Whether nothing is on the disk where the file was, nor anything but folders in its way.
fn is_off(tree: &Path, path: &[u8]) -> bool {
    let mut place = PathBuf::from(tree);
    for part in Path::new(OsStr::from_bytes(path)) {
        place.push(part);
        match fs::symlink_metadata(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Ok(metadata) if metadata.is_dir() => {}
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_of_files_and_of_folders() {
        let marks = Marks::read(b"H a/b\0S c/d\0S e/\0");
        let rows = [
            ("a/b", false),
            ("c/d", true),
            ("c", false),
            ("e/f/g", true),
            ("ee/f", false),
        ];
        for (path, expected) in rows {
            assert_eq!(marks.has(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn what_stands_in_the_way_of_a_file_is_no_absence() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir(tree.path().join("folder")).unwrap();
        fs::write(tree.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", tree.path().join("link")).unwrap();
        let rows = [
            ("gone/a", true),
            ("folder/a", true),
            ("folder", false),
            ("file/a", false),
            ("link", false),
        ];
        for (path, expected) in rows {
            assert_eq!(is_off(tree.path(), path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn what_a_file_was_is_read_with_any_name() {
        let raw = b":100644 000000 a1 00 D\0a\nb \xff\0";
        assert_eq!(entries(raw), [(b"100644 a1".to_vec(), &b"a\nb \xff"[..])]);
    }
}
