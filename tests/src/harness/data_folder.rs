//! Data folder of a test's servers: in memory if there is enough of it. A database has more than a thousand
//! files, created and deleted for each test, and on a disk that takes longer than most tests.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use tempfile::TempDir;

use super::world::make_traversable;

/// A Linux file system in memory.
const MEMORY: &str = "/dev/shm";
/// Enough for many tests at once. Bytes.
const ENOUGH_BYTES: u64 = 2 << 30;
/// The longest duration of a test: an older folder without its process is abandoned.
const OLD: Duration = Duration::from_secs(600);

/// Prefix of names; the id of the process follows.
const PREFIX: &str = "ralph-test-";

/// A new folder in memory, removed on drop; `None` without enough memory.
pub(super) fn in_memory() -> anyhow::Result<Option<TempDir>> {
    let memory = Path::new(MEMORY);
    if !has_room(memory) {
        return Ok(None);
    }
    remove_abandoned(memory);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(memory)?;
    make_traversable(dir.path())?;
    Ok(Some(dir))
}

fn has_room(folder: &Path) -> bool {
    let Ok(found) = statfs(folder) else { return false };
    let free_bytes = found.blocks_available() * u64::try_from(found.block_size()).unwrap_or(0);
    found.filesystem_type() == TMPFS_MAGIC && free_bytes >= ENOUGH_BYTES
}

/// Removes folders of killed tests: they would take memory until the next reboot.
fn remove_abandoned(memory: &Path) {
    for entry in fs::read_dir(memory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let Some(process) = process.and_then(|process| process.parse::<u32>().ok()) else {
            continue;
        };
        let made = entry.metadata().and_then(|metadata| metadata.modified());
        let age = made
            .ok()
            .and_then(|made| SystemTime::now().duration_since(made).ok());
        if age.is_some_and(|age| age > OLD) && !Path::new(&format!("/proc/{process}")).exists() {
            // Another test may be removing it too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
