//! Files that an agent took off the disk without deleting them: `git sparse-checkout` leaves only some
//! folders on disk and marks all other files in the index. Such files stay in the work, unchanged since the
//! start.
//!
//! The worker's own git reads the marks from the agent's index as data.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ralph_shared::at_length::at_length;

use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::git::Git;
use crate::workspace::git::raw_diff::raw_changes;
use crate::workspace::snapshot::force_added;

/// Mark of a file that is not on disk.
const MARK: &[u8] = b"S ";

/// Restores them in the worker's index, if `start` has them and the index lost them.
///
/// # Errors
/// When git fails. An unreadable index of the agent is skipped.
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
            tracing::info!(%error, "failed to read an agent's index");
            return Ok(());
        }
    };
    let input: Vec<u8> = at_length(|| {
        let marks = Marks::read(&listed);
        let kept = gone
            .iter()
            .filter(|(_, path)| marks.has(path) && is_missing(tree, path));
        kept.flat_map(|(ids, path)| [ids, &b"\t"[..], path, b"\0"].concat())
            .collect()
    });
    if !input.is_empty() {
        let restored = git.run("update-index").args(["-z", "--index-info"]);
        restored.input(input).output().await?;
    }
    Ok(())
}

/// Settings with which git keeps folder entries in an index unexpanded.
const UNEXPANDED: &[(&str, &str)] = &[
    ("core.sparseCheckout", "true"),
    ("core.sparseCheckoutCone", "true"),
    ("index.sparse", "true"),
    ("sparse.expectFilesOutsideOfPatterns", "true"),
];
/// Patterns of a sparse checkout without any folder. Git needs this file to keep folder entries.
const PATTERNS: &str = "/*\n!/*/\n";

/// The entries of an agent's index, each after a mark. An index may have entries for whole folders, whose
/// files are known only in the agent's commits, possibly missing here. Then the folders are listed.
async fn listed(git: &Git, index: PathBuf) -> Result<Vec<u8>, WorkspaceError> {
    let list = || {
        git.run("ls-files")
            .args(["-z", "-t", "--cached", "--sparse"])
            .variable("GIT_INDEX_FILE", &index)
            // The agent created missing objects, so no remote has them.
            .variable("GIT_NO_LAZY_FETCH", "1")
    };
    let listed = list().output().await?;
    if !String::from_utf8_lossy(&listed.stderr).contains("error: ") {
        return Ok(listed.stdout);
    }
    let patterns = git.dir().join("info/sparse-checkout");
    fs::write(&patterns, PATTERNS).map_err(WorkspaceError::io("write", &patterns))?;
    let settings = UNEXPANDED.iter();
    let settings = settings.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Ok(list().configured(settings.collect()).output().await?.stdout)
}

/// Parses `diff-index -z --raw`: each file's old mode and object id, separated by a space, and its path.
fn entries(raw: &[u8]) -> Vec<(Vec<u8>, &[u8])> {
    raw_changes(raw)
        .map(|change| ([change.old_mode, b" ", change.old].concat(), change.path))
        .collect()
}

/// Marked entries of an index: files, and whole folders with a trailing slash.
struct Marks<'a>(HashSet<&'a [u8]>);

impl<'a> Marks<'a> {
    /// Parses `ls-files -z -t --sparse`.
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

/// Whether the file is missing on disk, with only folders on its path.
fn is_missing(tree: &Path, path: &[u8]) -> bool {
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
    fn marks_apply_to_files_and_folders() {
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
    fn an_occupied_path_is_not_missing() {
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
            assert_eq!(is_missing(tree.path(), path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn raw_entries_are_parsed_with_any_file_name() {
        let raw = b":100644 000000 a1 00 D\0a\nb \xff\0";
        assert_eq!(entries(raw), [(b"100644 a1".to_vec(), &b"a\nb \xff"[..])]);
    }
}
