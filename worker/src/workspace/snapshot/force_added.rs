//! Ignored files that an agent committed anyway (`git add --force`): they belong to its work.
//!
//! The worker's own git reads their names from the agent's index as data, and their contents from the disk
//! like any other file. Whatever the agent's index says, no file outside the tree is stored.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use ralph_shared::at_length::at_length;
use ralph_shared::wire::CONTEXT_DIR;

use crate::workspace::error::GitError;
use crate::workspace::git::Git;
use crate::workspace::git::trouble::Trouble;

/// Most such files that are stored.
const MAX_FILES: usize = 10_000;

/// Adds them to the worker's index.
///
/// # Errors
/// When there is no space for them. An unreadable index of the agent is skipped.
pub(in crate::workspace) async fn add(git: &Git) -> Result<(), GitError> {
    let (Some(tree), Some(index)) = (git.tree(), index_of(git)) else {
        return Ok(());
    };
    let options = ["-z", "--cached", "--ignored", "--exclude-standard"];
    let listed = git
        .run("ls-files")
        .args(options)
        .variable("GIT_INDEX_FILE", index)
        .output();
    let listed = match listed.await {
        Ok(listed) => listed.stdout,
        Err(error) => {
            tracing::info!(%error, "failed to read an agent's index");
            return Ok(());
        }
    };
    // Checking each name reads the disk.
    let names: Vec<OsString> = at_length(|| {
        let names = listed.split(|byte| *byte == 0).filter(|name| is_in(tree, name));
        names
            .take(MAX_FILES)
            .map(|name| OsString::from_vec(name.to_vec()))
            .collect()
    });
    if names.is_empty() {
        return Ok(());
    }
    let mut input = Vec::new();
    for name in &names {
        input.extend_from_slice(name.as_bytes());
        input.push(0);
    }
    let options = ["--force", "--pathspec-from-file=-", "--pathspec-file-nul"];
    let added = git
        .run("add")
        .args(options)
        .variable("GIT_LITERAL_PATHSPECS", "1")
        .input(input)
        .output();
    match added.await {
        Err(error) if error.trouble == Trouble::NoSpace => Err(error),
        Err(error) => {
            tracing::warn!(%error, files = names.len(), "failed to store ignored files that an agent committed");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// The index of the agent's clone, if it is a plain file: a link could lead outside the tree.
pub(in crate::workspace) fn index_of(git: &Git) -> Option<PathBuf> {
    let dir = git.tree()?.join(".git");
    let index = dir.join("index");
    let is_own = |path: &Path, is: fn(&fs::FileType) -> bool| {
        fs::symlink_metadata(path).is_ok_and(|metadata| is(&metadata.file_type()))
    };
    (is_own(&dir, fs::FileType::is_dir) && is_own(&index, fs::FileType::is_file)).then_some(index)
}

/// Whether `name` is a file or link of the tree, with only the tree's own folders above it.
fn is_in(tree: &Path, name: &[u8]) -> bool {
    let name = Path::new(OsStr::from_bytes(name));
    let usable = name.components().all(|part| match part {
        Component::Normal(part) => !part.eq_ignore_ascii_case(".git"),
        _ => false,
    });
    if name.as_os_str().is_empty() || !usable || name.starts_with(CONTEXT_DIR) {
        return false;
    }
    let mut path = PathBuf::from(tree);
    for part in name.parent().into_iter().flat_map(Path::components) {
        path.push(part);
        if !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return false;
        }
        if path.join(".git").symlink_metadata().is_ok() {
            return false;
        }
    }
    fs::symlink_metadata(tree.join(name)).is_ok_and(|metadata| metadata.is_file() || metadata.is_symlink())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_tree_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        for folder in ["dist", ".git", ".ralph/context", "nested/.git"] {
            fs::create_dir_all(tree.join(folder)).unwrap();
        }
        for file in ["dist/x", ".git/config", ".ralph/context/spec", "nested/y"] {
            fs::write(tree.join(file), "x").unwrap();
        }
        fs::write(dir.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("..", tree.join("out")).unwrap();
        std::os::unix::fs::symlink("dist/x", tree.join("link")).unwrap();
        let accepted = ["dist/x", "link"];
        let refused = [
            "",
            "dist",
            "../secret",
            "out/secret",
            "/etc/passwd",
            ".git/config",
            ".GIT/config",
            ".ralph/context/spec",
            "nested/y",
            "gone",
        ];
        for name in accepted {
            assert!(is_in(&tree, name.as_bytes()), "{name}");
        }
        for name in refused {
            assert!(!is_in(&tree, name.as_bytes()), "{name}");
        }
    }
}
