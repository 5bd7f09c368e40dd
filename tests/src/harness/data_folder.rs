//! Where a test's servers keep their data: in memory where there is enough of it. A database is more than a thousand files, made and
//! deleted again for each test, and file systems on disks take longer over that than most tests over all else.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use tempfile::TempDir;

use super::world::make_traversable;

/// Linux keeps what is in it in memory.
const MEMORY: &str = "/dev/shm";
/// What many tests at once need, with much to spare. Bytes.
const ENOUGH_BYTES: u64 = 2 << 30;
/// The longest that a test takes: what is older and has no process any more is nobody's.
const OLD: Duration = Duration::from_secs(600);

/// How names begin; the process that made it follows.
const PREFIX: &str = "ralph-test-";

/// A new folder in memory, which goes with the value; `None` where there isn't enough.
///
/// # Errors
/// When it can't be made there after all.
pub(super) fn in_memory() -> anyhow::Result<Option<TempDir>> {
    let memory = Path::new(MEMORY);
    if !has_room(memory) {
        return Ok(None);
    }
    remove_left(memory);
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

/// Removes what tests left there that were killed: it would take memory until the machine is started again.
fn remove_left(memory: &Path) {
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
