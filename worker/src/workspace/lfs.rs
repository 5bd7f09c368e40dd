//! Git LFS as the worker's user has it: filters run in the worker's own git directory, with the worker's configuration;
//! objects are kept once a repository; the ones that an agent added go to the server before the commit that names them.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;

use super::error::GitError;
use super::git::{Git, REMOTE};
use crate::faults;

/// What `git lfs install` would have told git.
pub(super) const FILTER: &[(&str, &str)] = &[
    ("filter.lfs.process", "git-lfs filter-process"),
    ("filter.lfs.clean", "git-lfs clean -- %f"),
    ("filter.lfs.smudge", "git-lfs smudge -- %f"),
    ("filter.lfs.required", "true"),
];

/// Without it a checkout has to fail: an agent would work on the pointers. [`super::Trouble`] knows the words.
pub(super) const MISSING: &[(&str, &str)] = &[
    ("filter.lfs.clean", "echo git-lfs is not installed >&2; false #"),
    ("filter.lfs.smudge", "echo git-lfs is not installed >&2; false #"),
    ("filter.lfs.required", "true"),
];

/// Lets the worker's git directory keep its objects where all of the repository's are. (`lfs.storage` would hold for a
/// remote on a local path too.)
///
/// # Errors
/// When the disk refuses it.
pub(super) fn share(git: &Git) -> io::Result<()> {
    let Some(storage) = git.lfs_storage() else {
        return Ok(());
    };
    fs::create_dir_all(storage)?;
    match symlink(storage, git.dir().join("lfs")) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

/// Sends the objects that `commit` names and `start` doesn't, where the repository has any.
///
/// # Errors
/// When the server doesn't take them.
pub(super) async fn upload(git: &Git, start: &str, commit: &str, name: &str) -> Result<(), GitError> {
    let used = git
        .lfs_storage()
        .is_some_and(|storage| storage.join("objects").is_dir());
    if !used || start == commit {
        return Ok(());
    }
    // What a hook of the user's would be told; hooks are off.
    faults::point("lfs.before_upload");
    let pushed = format!("{name} {commit} {name} {start}\n");
    git.run("lfs")
        .args(["pre-push", REMOTE])
        .input(pushed)
        .remote()
        .output()
        .await?;
    faults::point("lfs.after_upload");
    Ok(())
}
