//! The disk that a worker may use (`[workspace] disk_budget_mb`): what can be had again goes before new work begins, the
//! least recently used first; what holds work stays.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::WorkspaceError;
use super::held::Held;
use super::record::{self, Folders, State};
use super::workspaces::Workspaces;
use super::{address, modes, submodules};

/// How long a mirror is kept after its last use, whatever the budget: who fetches into it may be about to borrow.
const MIRROR_REST: Duration = Duration::from_secs(3_600);

/// What can be had again.
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
}

impl Workspaces {
    /// Removes what can be had again until the data folder is within its budget, if it has one.
    ///
    /// # Errors
    /// When what is left holds work and is too much.
    pub(super) async fn make_room(&self) -> Result<(), WorkspaceError> {
        let Some(budget) = self.settings().disk_budget_bytes else {
            return Ok(());
        };
        let data = self.data().to_owned();
        let made = tokio::task::spawn_blocking(move || make_room(&data, budget));
        made.await
            .unwrap_or_else(|stopped| Err(WorkspaceError::io("look through", self.data())(stopped.into())))
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
            tracing::info!(path = %path.display(), size_bytes = size, "removed to stay within the disk's budget");
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

/// What a folder takes on disk; what is shared by hard links counts once a link.
fn size_bytes(folder: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(folder) else {
        return 0;
    };
    let own = metadata.blocks() * 512;
    if !metadata.is_dir() {
        return own;
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    own + entries.map(|entry| size_bytes(&entry.path())).sum::<u64>()
}

fn spare(data: &Path) -> Result<Vec<Spare>, WorkspaceError> {
    let mut spare = Vec::new();
    let mut in_use = BTreeSet::new();
    for path in folders_in(&record::records(data)) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let folders = Folders::new(data, &name)?;
        let Ok(Some(record)) = folders.read() else {
            continue;
        };
        if let State::Pushed { .. } = record.state {
            spare.extend(of(Kind::Workspace, path));
        }
        if let ralph_shared::wire::WorkspaceOrder::Git(order) = &record.order {
            in_use.insert(address::mirror_name(&order.repository.address));
        }
        let modules = submodules::of(&folders).unwrap_or_default();
        in_use.extend(modules.iter().map(|module| address::mirror_name(&module.address)));
    }
    for repository in folders_in(&record::caches(data)) {
        let caches = folders_in(&repository).flat_map(|whose| folders_in(&whose));
        spare.extend(caches.filter_map(|path| of(Kind::Cache, path)));
    }
    for path in folders_in(&record::mirrors(data)) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let rested = |spare: &Spare| spare.used.elapsed().is_ok_and(|rest| rest > MIRROR_REST);
        let mirror = of(Kind::Mirror, path).filter(rested);
        spare.extend(mirror.filter(|_| !name.contains('.') && !in_use.contains(&name)));
    }
    Ok(spare)
}

fn folders_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}

fn of(kind: Kind, path: PathBuf) -> Option<Spare> {
    let touched = match kind {
        Kind::Mirror => path.with_extension("lock"),
        Kind::Workspace => path.join("workspace.json"),
        Kind::Cache => path.clone(),
    };
    let used = fs::metadata(touched).ok()?.modified().ok()?;
    Some(Spare { used, kind, path })
}

/// Removes it unless somebody has it; whether it is gone.
fn remove(data: &Path, kind: Kind, path: &Path) -> Result<bool, WorkspaceError> {
    match kind {
        Kind::Workspace => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(held) = Held::take(Folders::new(data, &name)?)? else {
                return Ok(false);
            };
            // Nobody could change it since: it is locked now.
            let pushed = held
                .folders()
                .read()?
                .is_some_and(|record| matches!(record.state, State::Pushed { .. }));
            let removed = if pushed { held.folders().remove() } else { Ok(()) };
            drop(held.stay());
            removed.map(|()| pushed)
        }
        Kind::Cache => away(path),
        Kind::Mirror => {
            let lock = path.with_extension("lock");
            let file = fs::File::options().write(true).open(&lock);
            let file = file.map_err(WorkspaceError::io("open the lock", &lock))?;
            if file.try_lock().is_err() {
                return Ok(false);
            }
            away(path)
        }
    }
}

/// Moves it out of the way first, so that nobody finds half of it.
fn away(path: &Path) -> Result<bool, WorkspaceError> {
    let gone = path.with_extension("gone");
    modes::remove_tree(&gone).map_err(WorkspaceError::io("remove", &gone))?;
    fs::rename(path, &gone).map_err(WorkspaceError::io("move away", path))?;
    modes::remove_tree(&gone).map_err(WorkspaceError::io("remove", &gone))?;
    Ok(true)
}
