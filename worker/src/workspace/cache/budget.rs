//! The disk budget of a worker (`[workspace] disk_budget_mb`). Before new work begins, reproducible data and
//! leftovers of sessions without a repository are removed, the least recently used first. Unpushed work
//! stays.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::files::{caches, delete, folders_in};
use crate::disk::{bytes_on_disk, used_bytes};
use crate::workspace::error::WorkspaceError;
use crate::workspace::locked::LockedWorkspace;
use crate::workspace::record::{self, Folders, Record, State};
use crate::workspace::workspaces::Workspaces;
use crate::workspace::{
    clone::{mirror, submodules},
    git::address,
};

/// How long a mirror stays after its last use, whatever the budget: a process that fetched may be about to
/// borrow.
const MIRROR_GRACE: Duration = Duration::from_secs(3_600);

/// Data that may be removed: it is reproducible, or was kept only for a while.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spare {
    used: SystemTime,
    kind: Kind,
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A workspace whose work is on its attempt ref.
    Workspace,
    Cache,
    Mirror,
    /// Leftovers of a session without a repository, of any age.
    Leftovers,
}

impl Workspaces {
    /// Removes spare data until the data folder is within its budget, if it has one.
    ///
    /// # Errors
    /// When the rest holds work and exceeds the budget.
    pub(in crate::workspace) async fn make_room(&self) -> Result<(), WorkspaceError> {
        let Some(budget) = self.settings().disk_budget_bytes else {
            return Ok(());
        };
        let data = self.data().to_owned();
        let made = tokio::task::spawn_blocking(move || make_room(&data, budget));
        made.await
            .unwrap_or_else(|stopped| Err(WorkspaceError::io("search", self.data())(stopped.into())))
    }
}

fn make_room(data: &Path, budget: u64) -> Result<(), WorkspaceError> {
    let mut used = size_bytes(data);
    if used <= budget {
        return Ok(());
    }
    let mut spare = spare(data)?;
    spare.sort();
    for Spare { kind, path, .. } in spare {
        if used <= budget {
            return Ok(());
        }
        let mut size = size_bytes(&path);
        if kind == Kind::Workspace {
            size += size_bytes(&record::workspaces(data).join(path.file_name().unwrap_or_default()));
        }
        if remove(data, kind, &path)? {
            tracing::info!(path = %path.display(), size_bytes = size, "removed data to stay within the disk budget");
            used = used.saturating_sub(size);
        }
    }
    if used <= budget {
        return Ok(());
    }
    Err(WorkspaceError::OverBudget {
        data: data.to_owned(),
        used_mib: used >> 20,
        budget_mib: budget >> 20,
    })
}

/// The disk usage of a folder or a file. A file with several hard links counts once per link.
fn size_bytes(path: &Path) -> u64 {
    let own = fs::symlink_metadata(path).map_or(0, |metadata| bytes_on_disk(&metadata));
    own + used_bytes(path)
}

/// The readable records of workspaces.
pub(in crate::workspace) fn recorded(data: &Path) -> Result<Vec<(PathBuf, Folders, Record)>, WorkspaceError> {
    let mut found = Vec::new();
    for path in folders_in(&record::records(data)) {
        let name = name_of(&path);
        let folders = Folders::new(data, &name)?;
        if let Ok(Some(record)) = folders.read() {
            found.push((path, folders, record));
        }
    }
    Ok(found)
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The names of mirrors that a workspace borrows from, or is about to.
fn borrowed_mirrors(recorded: &[(PathBuf, Folders, Record)]) -> BTreeSet<String> {
    let mut in_use = BTreeSet::new();
    for (_, folders, record) in recorded {
        if let ralph_shared::wire::WorkspaceOrder::Git(order) = &record.order {
            in_use.insert(address::mirror_name(&order.repository.address));
        }
        let modules = submodules::of(folders).unwrap_or_default();
        in_use.extend(modules.iter().map(|module| address::mirror_name(&module.address)));
    }
    in_use
}

fn is_past_grace(mirror: &Spare) -> bool {
    mirror.used.elapsed().is_ok_and(|rest| rest > MIRROR_GRACE)
}

fn spare(data: &Path) -> Result<Vec<Spare>, WorkspaceError> {
    let recorded = recorded(data)?;
    let in_use = borrowed_mirrors(&recorded);
    let mut spare = Vec::new();
    for (path, _, record) in recorded {
        if let State::Pushed { .. } = record.state {
            spare.extend(of(Kind::Workspace, path));
        }
    }
    spare.extend(caches(data).filter_map(|path| of(Kind::Cache, path)));
    spare.extend(folders_in(&record::leftovers(data)).filter_map(|path| of(Kind::Leftovers, path)));
    for path in folders_in(&record::mirrors(data)) {
        let name = name_of(&path);
        let mirror = of(Kind::Mirror, path).filter(is_past_grace);
        spare.extend(mirror.filter(|_| !name.contains('.') && !in_use.contains(&name)));
    }
    Ok(spare)
}

fn of(kind: Kind, path: PathBuf) -> Option<Spare> {
    let touched = match kind {
        Kind::Mirror => path.with_extension("lock"),
        Kind::Workspace => path.join("workspace.json"),
        Kind::Cache | Kind::Leftovers => path.clone(),
    };
    let used = fs::metadata(touched).ok()?.modified().ok()?;
    Some(Spare { used, kind, path })
}

/// Removes it unless it is in use. Returns whether it is gone.
fn remove(data: &Path, kind: Kind, path: &Path) -> Result<bool, WorkspaceError> {
    match kind {
        Kind::Workspace => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(locked) = LockedWorkspace::take(Folders::new(data, &name)?)? else {
                return Ok(false);
            };
            // Read again under the lock: the state may have changed since.
            let pushed = locked
                .folders()
                .read()?
                .is_some_and(|record| matches!(record.state, State::Pushed { .. }));
            let removed = if pushed { locked.folders().remove() } else { Ok(()) };
            drop(locked.stay());
            removed.map(|()| pushed)
        }
        Kind::Cache | Kind::Leftovers => delete(path),
        Kind::Mirror => {
            let Some(_lock) = mirror::try_lock(path)? else {
                return Ok(false);
            };
            // It may have been used since the first look. A process about to use it already has a record, and
            // waits for the lock.
            let idle = of(Kind::Mirror, path.to_owned()).is_some_and(|mirror| is_past_grace(&mirror));
            if !idle || borrowed_mirrors(&recorded(data)?).contains(&name_of(path)) {
                return Ok(false);
            }
            delete(path)
        }
    }
}

#[cfg(test)]
mod tests {
    use ralph_shared::wire::WorkspaceOrder;

    use super::*;
    use crate::workspace::record::Purpose;

    /// A fetch may use it between the first look and the lock, and a workspace may be about to borrow.
    #[test]
    fn a_mirror_that_was_just_used_is_not_removed() {
        let data = tempfile::tempdir().unwrap();
        let address = "/srv/repository";
        let mirror = record::mirrors(data.path()).join(address::mirror_name(address));
        fs::create_dir_all(&mirror).unwrap();
        let lock = fs::File::create(mirror.with_extension("lock")).unwrap();
        let remove = || remove(data.path(), Kind::Mirror, &mirror).unwrap();
        assert!(!remove(), "its last use was just now");
        lock.set_modified(SystemTime::now() - 2 * MIRROR_GRACE).unwrap();
        let folders = Folders::new(data.path(), "d-1").unwrap();
        folders.make().unwrap();
        let order = serde_json::json!({
            "mode": "git", "repository": {"address": address}, "feature_branch": "ralph/f", "base": "0".repeat(40),
            "attempt_ref": "refs/ralph/attempts/f/t/1-d", "trailers": {},
        });
        let order: WorkspaceOrder = serde_json::from_value(order).unwrap();
        let (purpose, state) = (Purpose::Work, State::Preparing);
        let dispatch = "d-1".to_owned();
        folders
            .write(&Record {
                dispatch,
                order,
                purpose,
                state,
            })
            .unwrap();
        assert!(!remove(), "a workspace is about to borrow from it");
        folders.remove().unwrap();
        assert!(remove() && !mirror.exists());
    }
}
