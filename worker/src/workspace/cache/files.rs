//! The folders of the caches.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::error::WorkspaceError;
use crate::workspace::record;
use crate::workspace::snapshot::modes;

pub(super) fn caches(data: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let whose = folders_in(&record::caches(data)).flat_map(|repository| folders_in(&repository));
    whose.flat_map(|whose| folders_in(&whose))
}

pub(super) fn folders_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}

/// Renames the folder before deleting it, so that nobody finds half of it.
pub(super) fn delete(path: &Path) -> Result<bool, WorkspaceError> {
    let gone = path.with_extension("gone");
    modes::remove_tree(&gone).map_err(WorkspaceError::io("remove", &gone))?;
    fs::rename(path, &gone).map_err(WorkspaceError::io("move away", path))?;
    modes::remove_tree(&gone).map_err(WorkspaceError::io("remove", &gone))?;
    Ok(true)
}
